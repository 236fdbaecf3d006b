package org.sluice.app;

import android.app.Activity;
import android.app.AlertDialog;
import android.content.Context;
import android.graphics.Typeface;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.ScrollView;
import android.widget.TextView;

/** The few views that the app needs, made in code. */
final class Ui {
    private Ui() {}

    static int dp(Context context, int size) {
        return Math.round(size * context.getResources().getDisplayMetrics().density);
    }

    /** A column that scrolls, as the whole of an activity. */
    static LinearLayout column(Activity activity) {
        LinearLayout column = new LinearLayout(activity);
        column.setOrientation(LinearLayout.VERTICAL);
        int edge = dp(activity, 16);
        column.setPadding(edge, edge, edge, edge);
        ScrollView scroll = new ScrollView(activity);
        scroll.setFitsSystemWindows(true);
        scroll.addView(column);
        activity.setContentView(scroll);
        return column;
    }

    static TextView text(ViewGroup into, String text) {
        TextView view = new TextView(into.getContext());
        view.setText(text);
        into.addView(view);
        return view;
    }

    static TextView heading(ViewGroup into, String text) {
        TextView view = text(into, text);
        view.setTypeface(Typeface.DEFAULT_BOLD);
        view.setTextSize(18);
        view.setPadding(0, dp(into.getContext(), 20), 0, dp(into.getContext(), 4));
        return view;
    }

    static TextView title(ViewGroup into, String text) {
        TextView view = text(into, text);
        view.setTypeface(Typeface.DEFAULT_BOLD);
        view.setPadding(0, dp(into.getContext(), 12), 0, 0);
        return view;
    }

    static Button button(ViewGroup into, String text, View.OnClickListener work) {
        Button button = new Button(into.getContext());
        button.setAllCaps(false);
        button.setText(text);
        button.setOnClickListener(work);
        into.addView(button);
        return button;
    }

    static void say(Context context, String sentence) {
        new AlertDialog.Builder(context).setMessage(sentence).setPositiveButton("OK", null).show();
    }

    /** Asks whether `work` is to be done. */
    static void ask(Context context, String sentence, String yes, final Runnable work) {
        new AlertDialog.Builder(context)
            .setMessage(sentence)
            .setNegativeButton("Not now", null)
            .setPositiveButton(yes, new android.content.DialogInterface.OnClickListener() {
                @Override
                public void onClick(android.content.DialogInterface dialog, int which) {
                    work.run();
                }
            })
            .show();
    }
}
