package org.sluice.app;

import android.app.Activity;
import android.content.ActivityNotFoundException;
import android.content.Intent;
import android.database.Cursor;
import android.net.Uri;
import android.os.Bundle;
import android.provider.OpenableColumns;
import android.text.InputType;
import android.view.View;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.ProgressBar;
import android.widget.TextView;

import org.sluice.core.Download;
import org.sluice.core.HeaderCheck;
import org.sluice.core.InspectReport;
import org.sluice.core.ModelFolder;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;

/** The model card: choose one, look at one, fetch one. */
public final class ModelActivity extends Activity implements SluiceApp.Watcher {
    private static final int CHOOSE = 1;

    private SluiceApp app;
    private LinearLayout own;
    private LinearLayout shared;
    private TextView report;
    private ProgressBar bar;
    private Button stop;
    private boolean worked;

    @Override
    protected void onCreate(Bundle saved) {
        super.onCreate(saved);
        app = SluiceApp.of(this);
        LinearLayout column = Ui.column(this);
        report = Ui.text(column, "");
        bar = new ProgressBar(this, null, android.R.attr.progressBarStyleHorizontal);
        column.addView(bar);
        stop = Ui.button(column, "Stop the download", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                app.cancelDownload();
            }
        });
        Ui.heading(column, "Models on this phone");
        own = section(column);
        shared = section(column);
        Ui.button(column, "Choose a file\u2026", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                chooseFile();
            }
        });
        addDownload(column);
    }

    private LinearLayout section(LinearLayout column) {
        LinearLayout section = new LinearLayout(this);
        section.setOrientation(LinearLayout.VERTICAL);
        column.addView(section);
        return section;
    }

    private void addDownload(LinearLayout column) {
        Ui.heading(column, "Download");
        Ui.text(column, "Address of a .gguf file; of a split model, that of any part.");
        final EditText address = new EditText(this);
        address.setInputType(InputType.TYPE_CLASS_TEXT | InputType.TYPE_TEXT_VARIATION_URI);
        address.setHint("https://");
        column.addView(address);
        Ui.button(column, "Will it run here, and how fast?", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                inspectAddress(address.getText().toString().trim());
            }
        });
        Ui.button(column, "Download", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                download(address.getText().toString().trim());
            }
        });
    }

    @Override
    protected void onStart() {
        super.onStart();
        app.watch(this);
        showModels();
        changed();
    }

    @Override
    protected void onStop() {
        app.unwatch(this);
        super.onStop();
    }

    @Override
    public void changed() {
        boolean working = app.isWorking();
        bar.setVisibility(working ? View.VISIBLE : View.GONE);
        stop.setVisibility(working ? View.VISIBLE : View.GONE);
        bar.setProgress(app.percent());
        report.setText(app.sentence());
        if (worked && !working) {
            showModels();
        }
        worked = working;
    }

    private void showModels() {
        own.removeAllViews();
        shared.removeAllViews();
        for (ModelFolder.Model model : app.models().list()) {
            addModel(own, model, false);
        }
        if (app.sharedModels().folder().equals(app.models().folder())) {
            return;
        }
        Ui.text(shared, "Files put into " + app.sharedModels().folder() + " (over USB, say) are listed, too.");
        for (ModelFolder.Model model : app.sharedModels().list()) {
            addModel(shared, model, true);
        }
    }

    private void addModel(LinearLayout into, final ModelFolder.Model model, final boolean slow) {
        String mark = model.first.getPath().equals(app.settings().model()) ? " (in use)" : "";
        Ui.title(into, model.first.getName() + mark);
        Ui.text(into, (model.bytes >> 20) + " MiB" + (model.complete ? "" : "; parts are missing")
            + (slow ? "; in shared storage, which reads slowly and not past the page cache" : ""));
        LinearLayout buttons = new LinearLayout(this);
        into.addView(buttons);
        if (model.complete) {
            Ui.button(buttons, "Use", new View.OnClickListener() {
                @Override
                public void onClick(View view) {
                    use(model.first);
                }
            });
            Ui.button(buttons, "Look", new View.OnClickListener() {
                @Override
                public void onClick(View view) {
                    inspectFile(model.first);
                }
            });
        }
        if (slow && model.complete) {
            Ui.button(buttons, "Copy into the app", new View.OnClickListener() {
                @Override
                public void onClick(View view) {
                    copyAll(model);
                }
            });
        }
        Ui.button(buttons, "Delete", new View.OnClickListener() {
            @Override
            public void onClick(View view) {
                Ui.ask(ModelActivity.this, "Delete " + model.first.getName() + "?", "Delete", new Runnable() {
                    @Override
                    public void run() {
                        if (!model.delete()) {
                            Ui.say(ModelActivity.this, "Not all of it could be deleted.");
                        }
                        showModels();
                    }
                });
            }
        });
    }

    private void use(File first) {
        app.settings().setModel(first.getPath());
        try {
            app.settings().save();
        } catch (IOException e) {
            Ui.say(this, "The choice could not be kept: " + e.getMessage() + ".");
        }
        app.startEngine();
        finish();
    }

    private void inspectFile(final File first) {
        inspect("Looking at " + first.getName(), new Look() {
            @Override
            public InspectReport look(HeaderCheck check) throws IOException {
                return check.ofFile(first);
            }
        });
    }

    private void inspectAddress(final String address) {
        inspect("Looking at its header", new Look() {
            @Override
            public InspectReport look(HeaderCheck check) throws IOException {
                return check.ofAddress(address);
            }
        });
    }

    private interface Look {
        InspectReport look(HeaderCheck check) throws IOException;
    }

    private void inspect(String what, final Look look) {
        app.doWork(what, new SluiceApp.Work() {
            @Override
            public String run(Download.Progress progress) throws IOException {
                try {
                    HeaderCheck check = new HeaderCheck(app.engineProgram(), app.settings(), app.getCacheDir());
                    return look.look(check).text(app.settings().readRate());
                } catch (IllegalArgumentException e) {
                    return e.getMessage();
                }
            }
        });
    }

    private void download(final String address) {
        app.doWork("Downloading", new SluiceApp.Work() {
            @Override
            public String run(Download.Progress progress) throws IOException {
                try {
                    Download download = new Download(address, app.models().folder(), progress);
                    app.setDownload(download);
                    return download.run().getName() + " is here.";
                } catch (IllegalArgumentException e) {
                    return e.getMessage();
                }
            }
        });
    }

    private void copyAll(final ModelFolder.Model model) {
        app.doWork("Copying " + model.first.getName(), new SluiceApp.Work() {
            @Override
            public String run(Download.Progress progress) throws IOException {
                for (File file : model.files) {
                    app.models().copyIn(new FileInputStream(file), file.getName(), file.length(), progress);
                }
                return model.first.getName() + " is in the app now; the copy in shared storage can be deleted.";
            }
        });
    }

    private void chooseFile() {
        Intent intent = new Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*");
        intent.putExtra(Intent.EXTRA_ALLOW_MULTIPLE, true); // the parts of a split model
        try {
            startActivityForResult(intent, CHOOSE);
        } catch (ActivityNotFoundException e) {
            Ui.say(this, "This phone has no app to choose files with.");
        }
    }

    @Override
    protected void onActivityResult(int request, int result, final Intent data) {
        super.onActivityResult(request, result, data);
        if (request != CHOOSE || result != RESULT_OK || data == null) {
            return;
        }
        app.doWork("Copying", new SluiceApp.Work() {
            @Override
            public String run(Download.Progress progress) throws IOException {
                int count = data.getClipData() == null ? 1 : data.getClipData().getItemCount();
                for (int i = 0; i < count; ++i) {
                    copyChosen(data.getClipData() == null ? data.getData() : data.getClipData().getItemAt(i).getUri(),
                        progress);
                }
                return "It is in the app now.";
            }
        });
    }

    private void copyChosen(Uri uri, Download.Progress progress) throws IOException {
        String name = "";
        long size = -1;
        Cursor cursor = getContentResolver().query(uri, null, null, null, null);
        if (cursor != null) {
            if (cursor.moveToFirst()) {
                int nameAt = cursor.getColumnIndex(OpenableColumns.DISPLAY_NAME);
                int sizeAt = cursor.getColumnIndex(OpenableColumns.SIZE);
                name = nameAt < 0 || cursor.isNull(nameAt) ? "" : cursor.getString(nameAt);
                size = sizeAt < 0 || cursor.isNull(sizeAt) ? -1 : cursor.getLong(sizeAt);
            }
            cursor.close();
        }
        InputStream in = getContentResolver().openInputStream(uri);
        if (in == null) {
            throw new FileNotFoundException("the file's owner does not open it");
        }
        app.models().copyIn(in, name, size, progress);
    }
}
