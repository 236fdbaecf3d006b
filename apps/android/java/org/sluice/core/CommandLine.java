package org.sluice.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The engine's command lines and its environment, from settings. */
public final class CommandLine {
    public static final String HOST = "127.0.0.1";

    private static final List<String> PLANNED = Arrays.asList("ram-mb", "cache-mb", "cache-policy", "dense-weights",
        "io-threads", "threads", "ctx-size");

    private CommandLine() {}

    /** `serve` on the loopback device. The key is in `environment()`: command lines are shown in more places. */
    public static List<String> serve(String engine, Settings settings) {
        List<String> words = new ArrayList<String>(Arrays.asList(engine, "serve", "--model", settings.model(), "--host",
            HOST, "--port", String.valueOf(settings.port())));
        for (Setting setting : SettingsList.all()) {
            String value = settings.value(setting);
            if (value != null) {
                words.addAll(setting.arguments(value));
            }
        }
        return words;
    }

    /** `inspect` with those settings that a plan depends on (docs/inspect.md). Its flags are those of `sluice run`. */
    public static List<String> inspect(String engine, String model, Settings settings) {
        List<String> words = new ArrayList<String>(Arrays.asList(engine, "inspect", model, "--json"));
        String stream = valueOf(settings, "moe-stream");
        boolean rows = valueOf(settings, "row-stream").equals("on") && !stream.equals("off");
        if (stream.equals("on") || rows) { // there the one needs the other
            words.add("--moe-stream");
        } else if (stream.equals("off")) {
            words.add("--no-moe-stream");
        }
        if (rows) {
            words.add("--row-stream");
        }
        if (valueOf(settings, "direct").equals("off")) {
            words.add("--no-direct");
        }
        for (Setting setting : SettingsList.all()) {
            String value = settings.value(setting);
            boolean planned = PLANNED.contains(setting.name) || (rows && setting.name.equals("row-stream-mb"));
            if (value != null && planned) {
                words.addAll(setting.arguments(value));
            }
        }
        return words;
    }

    private static String valueOf(Settings settings, String name) {
        String value = settings.value(SettingsList.named(name));
        return value == null ? "" : value;
    }

    /** Variables to set: the key, and a folder of the app for what the engine keeps from run to run. */
    public static Map<String, String> environment(String key, String cacheFolder) {
        Map<String, String> variables = new LinkedHashMap<String, String>();
        variables.put("LLAMA_API_KEY", key);
        variables.put("XDG_CACHE_HOME", cacheFolder);
        variables.put("HOME", cacheFolder);
        variables.put("TMPDIR", cacheFolder);
        return variables;
    }
}
