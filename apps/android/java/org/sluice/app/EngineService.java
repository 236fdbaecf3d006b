package org.sluice.app;

import android.app.ActivityManager;
import android.app.Notification;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.content.IntentFilter;
import android.os.BatteryManager;
import android.os.Handler;
import android.os.HandlerThread;
import android.os.IBinder;
import android.os.PowerManager;

import org.sluice.core.Engine;
import org.sluice.core.FlashState;

import java.io.IOException;
import java.util.Locale;

/**
 * Keeps the app's process, and the engine with it, from being ended while the engine runs or a model arrives; shows how
 * fast it is, and watches memory and heat.
 */
public final class EngineService extends Service implements SluiceApp.Watcher {
    static final String STOP = "org.sluice.app.STOP";

    private static final String CHANNEL = "engine";
    private static final int NOTIFICATION = 1;
    private static final long POLL_MS = 2000;

    private SluiceApp app;
    private HandlerThread thread;
    private Handler poller;
    private PowerManager.WakeLock awake;
    private String shown = "";

    @Override
    public IBinder onBind(Intent intent) {
        return null;
    }

    @Override
    public void onCreate() {
        super.onCreate();
        app = SluiceApp.of(this);
        Newer.makeChannel(this, CHANNEL, "Engine");
        Newer.startForeground(this, NOTIFICATION, notification("starting"));
        PowerManager power = (PowerManager) getSystemService(Context.POWER_SERVICE);
        awake = power.newWakeLock(PowerManager.PARTIAL_WAKE_LOCK, "sluice:engine");
        awake.setReferenceCounted(false);
        thread = new HandlerThread("sluice-poll");
        thread.start();
        poller = new Handler(thread.getLooper());
        poller.post(poll);
        app.watch(this);
    }

    /**
     * Without an intent Android starts us again after it ended the app: then the engine is wanted, too, where it may have
     * one. Else it is started when somebody opens the app.
     */
    @Override
    public int onStartCommand(Intent intent, int flags, int startId) {
        if (!Newer.startForeground(this, NOTIFICATION, notification(statusLine()))) {
            stopSelf();
            return START_NOT_STICKY;
        }
        if (intent != null && STOP.equals(intent.getAction())) {
            app.cancelDownload();
            app.stopEngine();
        } else if (intent == null && !app.settings().model().isEmpty()) {
            app.startEngine();
        }
        return START_STICKY;
    }

    @Override
    public void changed() {
        String line = statusLine();
        if (!line.equals(shown)) {
            shown = line;
            NotificationManager manager = (NotificationManager) getSystemService(Context.NOTIFICATION_SERVICE);
            manager.notify(NOTIFICATION, notification(line));
        }
        if (app.engine().isDown() && !app.isWorking() && !app.isStarting()) {
            stopForeground(true);
            stopSelf();
        }
    }

    @Override
    public void onDestroy() {
        app.unwatch(this);
        thread.quit();
        app.keepSettings();
        if (awake.isHeld()) {
            awake.release();
        }
        super.onDestroy();
    }

    private final Runnable poll = new Runnable() {
        @Override
        public void run() {
            if (app.engine().state() == Engine.State.RUNNING) {
                look();
            }
            FlashState state = app.flash();
            if (app.isWorking() || (state != null && state.tokensPerSecond() > 0)) {
                awake.acquire(5 * POLL_MS); // only while something is computed or fetched
            }
            poller.postDelayed(this, POLL_MS);
        }
    };

    private void look() {
        ActivityManager.MemoryInfo memory = new ActivityManager.MemoryInfo();
        ((ActivityManager) getSystemService(Context.ACTIVITY_SERVICE)).getMemoryInfo(memory);
        if (memory.lowMemory) {
            app.trim();
        }
        try {
            FlashState state = app.client().state();
            if (state.readRate() > 0) {
                app.settings().setReadRate(state.readRate());
            }
            app.setFlash(state);
        } catch (IOException e) {
            app.tellWatchers(); // the engine says itself how it ended
        }
    }

    private String statusLine() {
        FlashState state = app.flash();
        boolean running = app.engine().state() == Engine.State.RUNNING && state != null && !app.isWorking();
        return (running ? state.line() : app.sentence()) + phone();
    }

    /** Battery and heat. */
    private String phone() {
        Intent battery = registerReceiver(null, new IntentFilter(Intent.ACTION_BATTERY_CHANGED));
        String text = "";
        if (battery != null) {
            int level = battery.getIntExtra(BatteryManager.EXTRA_LEVEL, -1);
            int tenths = battery.getIntExtra(BatteryManager.EXTRA_TEMPERATURE, -1);
            text += level < 0 ? "" : ", battery " + level + " %";
            text += tenths < 0 ? "" : String.format(Locale.ROOT, " at %.0f \u00b0C", tenths / 10.0);
        }
        String heat = Newer.heat(this);
        return text + (heat.isEmpty() ? "" : ", phone " + heat);
    }

    private Notification notification(String line) {
        int immutable = PendingIntent.FLAG_IMMUTABLE;
        PendingIntent open = PendingIntent.getActivity(this, 0, new Intent(this, MainActivity.class), immutable);
        PendingIntent stop = PendingIntent.getService(this, 1, new Intent(this, EngineService.class).setAction(STOP),
            immutable);
        return Newer.notification(this, CHANNEL)
            .setSmallIcon(R.drawable.status)
            .setContentTitle("Sluice")
            .setContentText(line)
            .setContentIntent(open)
            .setOngoing(true)
            .setOnlyAlertOnce(true)
            .addAction(new Notification.Action.Builder(R.drawable.status, "Stop", stop).build())
            .build();
    }
}
