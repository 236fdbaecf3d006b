package org.sluice.core;

import java.util.Locale;

/** What the app itself shows of the flash panel's state: the notification's line, and values that the plan chose. */
public final class FlashState {
    private final Object state;

    public FlashState(Object state) {
        this.state = state;
    }

    /** Tokens drawn in a second, lately; 0: nothing is computed. */
    public double tokensPerSecond() {
        double interval = Json.number(0, state, "models", 0, "sample", "interval_ms");
        double now = Json.number(0, state, "time_ms");
        double ended = Json.number(0, state, "models", 0, "sample", "time_ms");
        boolean old = now - ended > 2 * Math.max(interval, 1000);
        return interval <= 0 || old ? 0 : 1000 * Json.number(0, state, "models", 0, "sample", "tokens") / interval;
    }

    /** One line for the notification. */
    public String line() {
        double rate = tokensPerSecond();
        double resident = Json.number(-1, state, "memory", "resident_bytes");
        String memory = resident < 0 ? "" : String.format(Locale.ROOT, ", %.1f GiB of memory", resident / (1 << 30));
        return (rate > 0 ? String.format(Locale.ROOT, "%.1f tokens/s", rate) : "ready") + memory;
    }

    /** Bytes that a second of reading brought since the start; 0: nothing was read. */
    public double readRate() {
        double busy = Json.number(0, state, "models", 0, "totals", "device_busy_ms");
        return busy <= 0 ? 0 : 1000 * Json.number(0, state, "models", 0, "totals", "device_bytes") / busy;
    }

    /** A setting's value in force and who chose it, for people; empty if the engine does not say. */
    public String chosen(Setting setting) {
        for (Object each : Json.list(state, "models", 0, "settings")) {
            if (Json.string(each, "name").equals(setting.name)) {
                return describe(each);
            }
        }
        return "";
    }

    /** The setting may be changed while the engine runs. */
    public boolean changesNow(Setting setting) {
        for (Object each : Json.list(state, "models", 0, "settings")) {
            if (Json.string(each, "name").equals(setting.name)) {
                return Json.string(each, "apply").equals("now");
            }
        }
        return false;
    }

    private static String describe(Object setting) {
        Object value = Json.get(setting, "value");
        String text = value == null ? "not given"
            : value instanceof Boolean ? ((Boolean) value ? "on" : "off")
            : value instanceof Double ? number((Double) value) : value.toString();
        String unit = value instanceof Double ? Json.string(setting, "unit") : "";
        String by = Json.string(setting, "set_by");
        String reason = Json.string(setting, "reason");
        return text + (unit.isEmpty() ? "" : " " + unit) + " (" + by + (reason.isEmpty() ? "" : ": " + reason) + ")";
    }

    private static String number(double value) {
        return value == Math.rint(value) ? String.valueOf((long) value) : String.format(Locale.ROOT, "%.3g", value);
    }
}
