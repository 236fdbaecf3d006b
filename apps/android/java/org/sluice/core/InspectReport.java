package org.sluice.core;

import java.io.IOException;
import java.util.Locale;

/** What `sluice inspect --json` says of a model, in a few sentences. */
public final class InspectReport {
    private final Object json;

    /** Throws with the program's own sentence if it said nothing of the model. */
    InspectReport(Program.Run run) throws IOException {
        if (run.output.trim().isEmpty()) {
            throw new IOException(run.errors.trim().isEmpty() ? "inspect ended with code " + run.code : run.errors.trim());
        }
        try {
            json = Json.parse(run.output);
        } catch (IllegalArgumentException e) {
            throw new IOException("inspect said what cannot be read: " + e.getMessage(), e);
        }
    }

    public boolean runs() {
        return Json.get(json, "plan") != null;
    }

    public String description() {
        return Json.string(json, "description");
    }

    /** A value that the plan chose for a setting, with the reason; empty if it says nothing of it. */
    public String chosen(Setting setting) {
        for (Object choice : Json.list(json, "plan", "choices")) {
            String flag = Json.string(choice, "flag");
            String name = setting.name.equals("threads") ? "-t" : setting.name.equals("ctx-size") ? "-c" : "--" + setting.name;
            if (flag.equals(name) || flag.startsWith(name + " ")) {
                String value = flag.length() > name.length() ? flag.substring(name.length() + 1) : "on";
                return value + " (plan: " + Json.string(choice, "reason") + ")";
            }
        }
        return "";
    }

    /** Will it run, and what of its speed is known. `readRate`: bytes in a second, 0 if unmeasured. */
    public String text(double readRate) {
        StringBuilder text = new StringBuilder(description()).append('\n');
        text.append(size(Json.number(0, json, "file_bytes"))).append(" in files.\n");
        if (!runs()) {
            return text.append("It will not run: ").append(Json.string(json, "refusal")).append('\n').toString();
        }
        String budget = Json.number(-1, json, "plan", "budget_bytes") < 0 ? ""
            : " of " + size(Json.number(0, json, "plan", "budget_bytes"));
        text.append("It will run (").append(Json.string(json, "plan", "mode")).append("), and take ")
            .append(size(Json.number(0, json, "plan", "peak_bytes"))).append(budget).append(" of memory.\n");
        text.append(speed(readRate)).append('\n');
        for (Object warning : Json.list(json, "plan", "warnings")) {
            text.append(warning).append('\n');
        }
        return text.toString();
    }

    private String speed(double readRate) {
        double token = Json.number(0, json, "experts", "token_bytes");
        double all = Json.number(0, json, "experts", "bytes");
        double cache = Json.number(0, json, "plan", "cache_bytes");
        boolean streams = Json.string(json, "plan", "mode").equals("streaming");
        if (!streams || all <= 0 || cache >= all) {
            return "Nothing has to be read while it answers; how fast it computes here is unmeasured until it has run.";
        }
        double read = token * (1 - cache / all);
        String reads = "A token uses " + size(token) + " of experts. With " + size(cache) + " of " + size(all)
            + " cached it reads " + size(read) + " where experts are used evenly, less where they are not.";
        if (readRate <= 0) {
            return reads + " How fast that is, is unmeasured: nothing was read here yet.";
        }
        return reads + String.format(Locale.ROOT, " At the %s/s of the last run that takes %.0f ms; computing comes on top.",
            size(readRate), 1000 * read / readRate);
    }

    static String size(double bytes) {
        return bytes >= 1 << 30 ? String.format(Locale.ROOT, "%.1f GiB", bytes / (1 << 30))
            : String.format(Locale.ROOT, "%.0f MiB", bytes / (1 << 20));
    }
}
