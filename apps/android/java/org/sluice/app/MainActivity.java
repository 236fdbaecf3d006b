package org.sluice.app;

import android.annotation.SuppressLint;
import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.net.Uri;
import android.os.Build;
import android.os.Bundle;
import android.view.View;
import android.view.ViewGroup;
import android.webkit.JavascriptInterface;
import android.webkit.ValueCallback;
import android.webkit.WebChromeClient;
import android.webkit.WebSettings;
import android.webkit.WebView;
import android.webkit.WebViewClient;
import android.widget.HorizontalScrollView;
import android.widget.LinearLayout;
import android.widget.TextView;

import org.sluice.core.CommandLine;
import org.sluice.core.Engine;
import org.sluice.core.OpeningPage;

import java.io.IOException;

/** The engine's own pages in a web view, and the way to models and settings. */
public final class MainActivity extends Activity implements SluiceApp.Watcher {
    private static final int CHOOSE_FILE = 1;

    private SluiceApp app;
    private WebView web;
    private TextView status;
    private String opened = ""; // key of the engine that the page was opened with
    private String place = "/";
    private ValueCallback<Uri[]> chosen;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        app = SluiceApp.of(this);
        if (Build.VERSION.SDK_INT >= 33) {
            requestPermissions(new String[] {"android.permission.POST_NOTIFICATIONS"}, 0);
        }
        LinearLayout column = new LinearLayout(this);
        column.setOrientation(LinearLayout.VERTICAL);
        column.setFitsSystemWindows(true);
        addBar(column);
        status = Ui.text(column, "");
        status.setPadding(Ui.dp(this, 8), 0, Ui.dp(this, 8), Ui.dp(this, 4));
        web = makeWeb();
        column.addView(web, new LinearLayout.LayoutParams(ViewGroup.LayoutParams.MATCH_PARENT, 0, 1));
        setContentView(column);
        if (app.settings().model().isEmpty()) {
            startActivity(new Intent(this, ModelActivity.class));
        } else if (app.engine().isDown()) {
            app.startEngine();
        }
    }

    private void addBar(LinearLayout column) {
        LinearLayout bar = new LinearLayout(this);
        HorizontalScrollView scroll = new HorizontalScrollView(this);
        scroll.addView(bar);
        column.addView(scroll);
        Ui.button(bar, "Chat", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                open("/");
            }
        });
        Ui.button(bar, "Flash", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                open("/flash");
            }
        });
        Ui.button(bar, "Model", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                startActivity(new Intent(MainActivity.this, ModelActivity.class));
            }
        });
        Ui.button(bar, "Settings", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                startActivity(new Intent(MainActivity.this, SettingsActivity.class));
            }
        });
        Ui.button(bar, "Log", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                Ui.say(MainActivity.this, app.engine().log());
            }
        });
    }

    @SuppressLint("SetJavaScriptEnabled")
    private WebView makeWeb() {
        WebView view = new WebView(this);
        WebSettings settings = view.getSettings();
        settings.setJavaScriptEnabled(true);
        settings.setDomStorageEnabled(true);
        settings.setDatabaseEnabled(true);
        settings.setAllowFileAccess(false);
        view.setWebViewClient(new Pages());
        view.setWebChromeClient(new Chooser());
        view.addJavascriptInterface(new Host(), "sluice_host");
        return view;
    }

    private String origin() {
        return "http://" + CommandLine.HOST + ":" + app.settings().port();
    }

    /** Opens a page of the engine, which then has the key. */
    private void open(String path) {
        place = path;
        if (app.engine().state() == Engine.State.RUNNING) {
            opened = app.engine().key();
            web.loadDataWithBaseURL(origin() + "/", OpeningPage.html(opened, path), "text/html", "utf-8", null);
        } else if (app.engine().isDown() && !app.settings().model().isEmpty()) {
            app.startEngine();
        }
    }

    @Override
    protected void onStart() {
        super.onStart();
        app.watch(this);
        changed();
    }

    @Override
    protected void onStop() {
        app.unwatch(this);
        super.onStop();
    }

    @Override
    public void changed() {
        boolean running = app.engine().state() == Engine.State.RUNNING;
        status.setText(running && app.flash() != null && !app.isWorking() ? app.flash().line() : app.sentence());
        if (running && !opened.equals(app.engine().key())) {
            open(place);
        }
    }

    @Override
    public void onBackPressed() {
        if (web.canGoBack()) {
            web.goBack();
        } else {
            moveTaskToBack(true); // leaving is not stopping: the notification has a button for that
        }
    }

    @Override
    protected void onActivityResult(int request, int result, Intent data) {
        super.onActivityResult(request, result, data);
        if (request == CHOOSE_FILE && chosen != null) {
            chosen.onReceiveValue(WebChromeClient.FileChooserParams.parseResult(result, data));
            chosen = null;
        }
    }

    @Override
    protected void onDestroy() {
        web.destroy();
        super.onDestroy();
    }

    /** Stays with the engine; other addresses are a browser's. */
    private final class Pages extends WebViewClient {
        @Override
        public boolean shouldOverrideUrlLoading(WebView view, String address) {
            if (address.startsWith(origin() + "/")) {
                return false;
            }
            try {
                startActivity(new Intent(Intent.ACTION_VIEW, Uri.parse(address)));
            } catch (ActivityNotFoundException e) {
                Ui.say(MainActivity.this, "No app opens " + address);
            }
            return true;
        }
    }

    private final class Chooser extends WebChromeClient {
        @Override
        public boolean onShowFileChooser(WebView view, ValueCallback<Uri[]> result, FileChooserParams parameters) {
            if (chosen != null) {
                chosen.onReceiveValue(null);
            }
            chosen = result;
            try {
                startActivityForResult(parameters.createIntent(), CHOOSE_FILE);
                return true;
            } catch (ActivityNotFoundException e) {
                chosen = null;
                return false;
            }
        }
    }

    /** What the flash panel may ask of the app (docs/flash.md, "In an app"). Called on a thread of the web view. */
    private final class Host {
        @JavascriptInterface
        public void restart(final String settings) {
            runOnUiThread(new Runnable() {
                @Override
                public void run() {
                    String refusal = app.settings().setAll(settings);
                    if (refusal != null) {
                        Ui.say(MainActivity.this, refusal);
                        return;
                    }
                    try {
                        app.settings().save();
                    } catch (IOException e) {
                        Ui.say(MainActivity.this, "The settings could not be kept: " + e.getMessage() + ".");
                    }
                    app.startEngine();
                }
            });
        }
    }
}
