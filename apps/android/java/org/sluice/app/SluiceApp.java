package org.sluice.app;

import android.app.Application;
import android.content.Context;
import android.content.Intent;
import android.os.Handler;
import android.os.Looper;
import android.os.Process;

import org.sluice.core.CpuChoice;
import org.sluice.core.Download;
import org.sluice.core.Engine;
import org.sluice.core.FlashClient;
import org.sluice.core.FlashState;
import org.sluice.core.ModelFolder;
import org.sluice.core.Settings;

import java.io.File;
import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** What activities and the service share: settings, the engine, and long work. Lives as long as the app's process. */
public final class SluiceApp extends Application implements Engine.Listener {
    /** Hears on the main thread that something changed. */
    public interface Watcher {
        void changed();
    }

    private static final int SIGTERM = 15;

    private final Handler main = new Handler(Looper.getMainLooper());
    private final ExecutorService control = Executors.newSingleThreadExecutor(); // starts and ends the engine
    private final ExecutorService work = Executors.newSingleThreadExecutor();    // downloads and copies
    private final Set<Watcher> watchers = new LinkedHashSet<Watcher>();          // of the main thread

    private Settings settings;
    private Engine engine;
    private ModelFolder models;
    private volatile String sentence = "";
    private volatile FlashState flash;
    private volatile String working = ""; // what long work is at; empty: there is none
    private volatile int percent;
    private volatile boolean starting; // asked for, and not yet begun
    private volatile Download download;

    public static SluiceApp of(Context context) {
        return (SluiceApp) context.getApplicationContext();
    }

    @Override
    public void onCreate() {
        super.onCreate();
        settings = new Settings(new File(getFilesDir(), "settings"));
        models = new ModelFolder(new File(getFilesDir(), "models"));
        engine = new Engine(engineProgram(), getCacheDir(), settings, new Engine.Ender() {
            @Override
            public void end(int pid) {
                Process.sendSignal(pid, SIGTERM);
            }
        }, this);
    }

    String engineProgram() {
        return CpuChoice.engine(new File(getApplicationInfo().nativeLibraryDir)).getPath();
    }

    public Settings settings() {
        return settings;
    }

    public Engine engine() {
        return engine;
    }

    public ModelFolder models() {
        return models;
    }

    /** Folder that a person can fill over USB: shared storage, where direct reads do not work. */
    public ModelFolder sharedModels() {
        File shared = getExternalFilesDir("models");
        return shared == null ? models : new ModelFolder(shared);
    }

    public FlashClient client() {
        return new FlashClient(settings.port(), engine.key());
    }

    /** The newest one; null while the engine does not run. */
    public FlashState flash() {
        return flash;
    }

    void setFlash(FlashState state) {
        flash = state;
        tellWatchers();
    }

    /** One sentence about the engine, or what long work is at. */
    public String sentence() {
        return working.isEmpty() ? sentence : working;
    }

    public boolean isWorking() {
        return !working.isEmpty();
    }

    public int percent() {
        return percent;
    }

    boolean isStarting() {
        return starting;
    }

    /** Starts the engine, again if it runs, and the service that keeps it alive. */
    public void startEngine() {
        starting = true;
        startService();
        control.execute(new Runnable() {
            @Override
            public void run() {
                engine.start();
                starting = false;
                tellWatchers();
            }
        });
    }

    public void stopEngine() {
        control.execute(new Runnable() {
            @Override
            public void run() {
                engine.stop();
            }
        });
    }

    private void startService() {
        Newer.startForegroundService(this, new Intent(this, EngineService.class));
    }

    /** Writes settings down; what the last run measured is among them. */
    void keepSettings() {
        try {
            settings.save();
        } catch (IOException e) {
            sentence = "The settings could not be kept: " + e.getMessage() + ".";
        }
    }

    /** Gives memory back, at once. */
    public void trim() {
        if (engine.state() != Engine.State.RUNNING) {
            return;
        }
        new Thread("sluice-trim") {
            @Override
            public void run() {
                try {
                    client().trim();
                } catch (IOException e) {
                    // it is busy or gone; the engine watches the system's memory itself, too
                }
            }
        }.start();
    }

    @Override
    public void onTrimMemory(int level) {
        super.onTrimMemory(level);
        if (level != TRIM_MEMORY_UI_HIDDEN) {
            trim();
        }
    }

    @Override
    public void changed(Engine.State state, String text) {
        sentence = text;
        flash = null;
        tellWatchers();
    }

    /** Long work: one at a time, under the service, so that the app is not ended meanwhile. */
    interface Work {
        /** Returns a sentence about what came of it. */
        String run(Download.Progress progress) throws IOException;
    }

    void doWork(final String what, final Work task) {
        if (isWorking()) {
            return; // its progress is on the screen
        }
        working = what;
        percent = 0;
        startService();
        work.execute(new Runnable() {
            @Override
            public void run() {
                String end;
                try {
                    end = task.run(progressOf(what));
                } catch (IOException e) {
                    end = what + ": " + e.getMessage() + ".";
                } catch (SecurityException e) { // a file that another app takes back
                    end = what + ": " + e.getMessage() + ".";
                }
                working = "";
                download = null;
                sentence = end;
                tellWatchers();
            }
        });
        tellWatchers();
    }

    private Download.Progress progressOf(final String what) {
        return new Download.Progress() {
            private long told;

            @Override
            public void arrived(long bytes, long total, String name) {
                long now = System.currentTimeMillis();
                if (now - told > 300) {
                    told = now;
                    percent = (int) (total > 0 ? 100 * bytes / total : 0);
                    working = what + ": " + (bytes >> 20) + " of " + (total >> 20) + " MiB";
                    tellWatchers();
                }
            }
        };
    }

    void setDownload(Download running) {
        download = running;
    }

    void cancelDownload() {
        Download running = download;
        if (running != null) {
            running.cancel();
        }
    }

    void watch(Watcher watcher) {
        watchers.add(watcher);
    }

    void unwatch(Watcher watcher) {
        watchers.remove(watcher);
    }

    void tellWatchers() {
        main.post(new Runnable() {
            @Override
            public void run() {
                for (Watcher watcher : watchers.toArray(new Watcher[0])) {
                    watcher.changed();
                }
            }
        });
    }
}
