package org.sluice.app;

import android.app.Activity;
import android.os.Bundle;
import android.text.InputType;
import android.view.View;
import android.view.ViewGroup;
import android.widget.ArrayAdapter;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.Spinner;
import android.widget.TextView;

import org.sluice.core.Engine;
import org.sluice.core.FlashState;
import org.sluice.core.HeaderCheck;
import org.sluice.core.InspectReport;
import org.sluice.core.Setting;
import org.sluice.core.Settings;
import org.sluice.core.SettingsList;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** All settings, each with what the planner chose. What is left empty stays the planner's to choose. */
public final class SettingsActivity extends Activity {
    private static final String LEFT = "left to the engine";

    private final Map<Setting, View> inputs = new LinkedHashMap<Setting, View>();
    private final Map<Setting, TextView> chosen = new LinkedHashMap<Setting, TextView>();
    private SluiceApp app;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        app = SluiceApp.of(this);
        LinearLayout column = Ui.column(this);
        for (Setting.Group group : Setting.Group.values()) {
            addGroup(column, group);
        }
        Ui.button(column, "Save", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                save();
            }
        });
        showChosen();
    }

    private void addGroup(LinearLayout column, Setting.Group group) {
        TextView heading = Ui.heading(column, group.title);
        final LinearLayout body = new LinearLayout(this);
        body.setOrientation(LinearLayout.VERTICAL);
        if (group == Setting.Group.LOSSY) {
            body.setVisibility(View.GONE);
            heading.setText("\u25b8 " + group.title);
            heading.setOnClickListener(new View.OnClickListener() {
                @Override
                public void onClick(View view) {
                    body.setVisibility(body.getVisibility() == View.GONE ? View.VISIBLE : View.GONE);
                }
            });
        }
        column.addView(body);
        for (Setting setting : SettingsList.of(group)) {
            addSetting(body, setting);
        }
    }

    private void addSetting(ViewGroup into, Setting setting) {
        Ui.title(into, setting.title + (setting.unit.isEmpty() ? "" : " (" + setting.unit + ")"));
        Ui.text(into, setting.about + ". --" + setting.name);
        chosen.put(setting, Ui.text(into, ""));
        String value = app.settings().value(setting);
        View input = setting.kind == Setting.Kind.NUMBER ? numberInput(setting, value) : choiceInput(setting, value);
        inputs.put(setting, input);
        into.addView(input);
    }

    private View numberInput(Setting setting, String value) {
        EditText input = new EditText(this);
        input.setInputType(setting.words.isEmpty()
            ? InputType.TYPE_CLASS_NUMBER | InputType.TYPE_NUMBER_FLAG_DECIMAL : InputType.TYPE_CLASS_TEXT);
        input.setHint(LEFT);
        input.setText(value == null ? "" : value);
        return input;
    }

    private View choiceInput(Setting setting, String value) {
        List<String> words = new ArrayList<String>();
        words.add(LEFT);
        words.addAll(setting.words);
        Spinner input = new Spinner(this);
        ArrayAdapter<String> adapter = new ArrayAdapter<String>(this, android.R.layout.simple_spinner_item, words);
        adapter.setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item);
        input.setAdapter(adapter);
        input.setSelection(value == null ? 0 : words.indexOf(value));
        return input;
    }

    /** From the engine if it runs, else from a plan for the model as it lies there. */
    private void showChosen() {
        final FlashState state = app.flash();
        new Thread("sluice-chosen") {
            @Override
            public void run() {
                InspectReport plan = state == null ? planOrNull() : null;
                final Map<Setting, String> texts = new LinkedHashMap<Setting, String>();
                for (Setting setting : SettingsList.all()) {
                    String text = state != null ? state.chosen(setting) : plan != null ? plan.chosen(setting) : "";
                    texts.put(setting, text.isEmpty() ? "" : "Now: " + text);
                }
                runOnUiThread(new Runnable() {
                    @Override
                    public void run() {
                        for (Map.Entry<Setting, String> entry : texts.entrySet()) {
                            chosen.get(entry.getKey()).setText(entry.getValue());
                        }
                    }
                });
            }
        }.start();
    }

    private InspectReport planOrNull() {
        String model = app.settings().model();
        try {
            return model.isEmpty() ? null
                : new HeaderCheck(app.engineProgram(), app.settings(), app.getCacheDir()).ofFile(new File(model));
        } catch (IOException e) {
            return null;
        }
    }

    private String wanted(Setting setting) {
        View input = inputs.get(setting);
        if (input instanceof EditText) {
            return ((EditText) input).getText().toString().trim();
        }
        String word = (String) ((Spinner) input).getSelectedItem();
        return word.equals(LEFT) ? "" : word;
    }

    private void save() {
        Settings settings = app.settings();
        for (Setting setting : SettingsList.all()) {
            String refusal = wanted(setting).isEmpty() ? null : setting.refusal(wanted(setting));
            if (refusal != null) {
                Ui.say(this, refusal);
                return;
            }
        }
        List<Setting> changed = new ArrayList<Setting>();
        for (Setting setting : SettingsList.all()) {
            String before = settings.value(setting);
            String now = wanted(setting);
            settings.set(setting, now);
            if (!now.equals(before == null ? "" : before)) {
                changed.add(setting);
            }
        }
        try {
            settings.save();
        } catch (IOException e) {
            Ui.say(this, "The settings could not be kept: " + e.getMessage() + ".");
            return;
        }
        apply(changed);
    }

    /** What may change while the engine runs does so now; for the rest a start is offered. */
    private void apply(List<Setting> changed) {
        FlashState state = app.flash();
        if (app.engine().state() != Engine.State.RUNNING || state == null || changed.isEmpty()) {
            finish();
            return;
        }
        StringBuilder later = new StringBuilder();
        final Map<Setting, String> now = new LinkedHashMap<Setting, String>();
        for (Setting setting : changed) {
            if (state.changesNow(setting) && !wanted(setting).isEmpty()) {
                now.put(setting, wanted(setting));
            } else {
                later.append(later.length() == 0 ? "" : ", ").append(setting.title);
            }
        }
        changeNow(now);
        if (later.length() == 0) {
            finish();
            return;
        }
        Ui.ask(this, "In force after the engine has started again: " + later + ". Chats are kept.", "Start it again",
            new Runnable() {
                @Override
                public void run() {
                    app.startEngine();
                    finish();
                }
            });
    }

    private void changeNow(final Map<Setting, String> values) {
        new Thread("sluice-change") {
            @Override
            public void run() {
                for (Map.Entry<Setting, String> entry : values.entrySet()) {
                    try {
                        app.client().change(entry.getKey(), entry.getValue());
                    } catch (final IOException e) {
                        runOnUiThread(new Runnable() {
                            @Override
                            public void run() {
                                if (!isFinishing()) {
                                    Ui.say(SettingsActivity.this, e.getMessage());
                                }
                            }
                        });
                    }
                }
            }
        }.start();
    }
}
