package org.sluice.app;

import android.app.Notification;
import android.app.NotificationManager;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.os.Build;
import android.os.PowerManager;
import android.util.Log;

/** What Android has had only since later versions than the one that we compile for: called by name. */
final class Newer {
    private static final String TAG = "sluice";
    private static final int DATA_SYNC = 1;       // ServiceInfo.FOREGROUND_SERVICE_TYPE_DATA_SYNC
    private static final int IMPORTANCE_LOW = 2;  // silent

    private Newer() {}

    /** Since 8.0: a service that shows a notification soon. */
    static void startForegroundService(Context context, Intent intent) {
        try {
            Context.class.getMethod("startForegroundService", Intent.class).invoke(context, intent);
        } catch (ReflectiveOperationException e) {
            Log.w(TAG, "cannot start the service", e);
        }
    }

    /**
     * Since 10 with what it is for, which 14 demands. False if Android does not allow it now: since 12 it may refuse an app
     * that nobody looks at.
     */
    static boolean startForeground(Service service, int id, Notification notification) {
        try {
            if (Build.VERSION.SDK_INT < 29) {
                service.startForeground(id, notification);
            } else {
                Service.class.getMethod("startForeground", int.class, Notification.class, int.class)
                    .invoke(service, id, notification, DATA_SYNC);
            }
            return true;
        } catch (ReflectiveOperationException e) {
            Log.w(TAG, "the service may not run in the foreground", e);
            return false;
        }
    }

    /** Since 8.0: what notifications belong to. */
    static void makeChannel(Context context, String id, String name) {
        try {
            Class<?> channel = Class.forName("android.app.NotificationChannel");
            Object made = channel.getConstructor(String.class, CharSequence.class, int.class)
                .newInstance(id, name, IMPORTANCE_LOW);
            NotificationManager manager = (NotificationManager) context.getSystemService(Context.NOTIFICATION_SERVICE);
            NotificationManager.class.getMethod("createNotificationChannel", channel).invoke(manager, made);
        } catch (ReflectiveOperationException e) {
            Log.w(TAG, "cannot make a notification channel", e);
        }
    }

    static Notification.Builder notification(Context context, String channel) {
        try {
            return Notification.Builder.class.getConstructor(Context.class, String.class).newInstance(context, channel);
        } catch (ReflectiveOperationException e) {
            Log.w(TAG, "cannot name a notification's channel", e);
            return new Notification.Builder(context);
        }
    }

    /** Since 10: how hot the phone is, in a word; empty where it does not say. */
    static String heat(Context context) {
        String[] words = {"cool", "warm", "hot", "very hot", "critically hot", "about to shut down", "shutting down"};
        try {
            PowerManager power = (PowerManager) context.getSystemService(Context.POWER_SERVICE);
            int status = (Integer) PowerManager.class.getMethod("getCurrentThermalStatus").invoke(power);
            return status >= 0 && status < words.length ? words[status] : "";
        } catch (ReflectiveOperationException e) {
            return "";
        }
    }
}
