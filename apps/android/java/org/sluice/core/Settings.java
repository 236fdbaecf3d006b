package org.sluice.core;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/**
 * What the user chose: values of settings, the model, and the port. What is not set is the planner's to choose. Kept in a
 * file that is replaced whole, so that a killed process leaves the old one or the new one. Safe for several threads.
 */
public final class Settings {
    private static final String VALUE = "value.";

    private final File file;
    private final Map<String, String> values = new TreeMap<String, String>();
    private String model = "";
    private int port;
    private double readRate;

    /** Reads `file`; one that is not there or unreadable gives settings with nothing set. */
    public Settings(File file) {
        this.file = file;
        Properties read = new Properties();
        try {
            InputStream in = new FileInputStream(file);
            try {
                read.load(in);
            } finally {
                in.close();
            }
        } catch (IOException e) {
            read.clear();
        } catch (IllegalArgumentException e) { // a damaged escape
            read.clear();
        }
        model = read.getProperty("model", "");
        port = (int) numberOf(read.getProperty("port"));
        readRate = numberOf(read.getProperty("read-rate"));
        for (Setting setting : SettingsList.all()) {
            String value = read.getProperty(VALUE + setting.name);
            if (value != null && setting.refusal(value) == null) {
                values.put(setting.name, value);
            }
        }
    }

    /** Null if nobody set it. */
    public synchronized String value(Setting setting) {
        return values.get(setting.name);
    }

    /** Sets a value, or with null leaves it to the planner. Returns null, or why the value was not taken. */
    public synchronized String set(Setting setting, String value) {
        if (value == null || value.isEmpty()) {
            values.remove(setting.name);
            return null;
        }
        String refusal = setting.refusal(value);
        if (refusal == null) {
            values.put(setting.name, value);
        }
        return refusal;
    }

    /**
     * Takes what the flash panel hands over for a restart: a JSON object of settings by name. All or none is taken.
     * Returns null, or why none was.
     */
    public synchronized String setAll(String json) {
        Map<String, String> before = new TreeMap<String, String>(values);
        String refusal = "That was no list of settings.";
        try {
            Object parsed = Json.parse(json);
            refusal = parsed instanceof Map ? setAll((Map<?, ?>) parsed) : refusal;
        } catch (IllegalArgumentException e) {
            refusal = "That was no list of settings: " + e.getMessage() + ".";
        }
        if (refusal != null) {
            values.clear();
            values.putAll(before);
        }
        return refusal;
    }

    private String setAll(Map<?, ?> wanted) {
        for (Map.Entry<?, ?> entry : wanted.entrySet()) {
            Setting setting = SettingsList.named(String.valueOf(entry.getKey()));
            if (setting == null) {
                return "The app has no setting '" + entry.getKey() + "'.";
            }
            String refusal = set(setting, wordOf(entry.getValue()));
            if (refusal != null) {
                return refusal;
            }
        }
        return null;
    }

    private static String wordOf(Object value) {
        if (value instanceof Boolean) {
            return (Boolean) value ? "on" : "off";
        }
        if (value instanceof Double) {
            double number = (Double) value;
            return number == Math.rint(number) ? String.valueOf((long) number) : String.valueOf(number);
        }
        return value == null ? null : value.toString();
    }

    /** Path of the model file, or of the first of a split one; empty: none was chosen. */
    public synchronized String model() {
        return model;
    }

    public synchronized void setModel(String path) {
        model = path;
    }

    /**
     * The port of the engine, 0 until there was one. It stays the same: a browser keeps chats by address, port
     * included.
     */
    public synchronized int port() {
        return port;
    }

    public synchronized void setPort(int number) {
        port = number;
    }

    /** Bytes that a second of reading brought in the last run; 0: unmeasured. */
    public synchronized double readRate() {
        return readRate;
    }

    public synchronized void setReadRate(double bytesPerSecond) {
        readRate = bytesPerSecond;
    }

    public synchronized void save() throws IOException {
        Properties written = new Properties();
        written.setProperty("model", model);
        written.setProperty("port", String.valueOf(port));
        written.setProperty("read-rate", String.valueOf(readRate));
        for (Map.Entry<String, String> entry : values.entrySet()) {
            written.setProperty(VALUE + entry.getKey(), entry.getValue());
        }
        File fresh = new File(file.getPath() + ".new");
        OutputStream out = new FileOutputStream(fresh);
        try {
            written.store(out, null);
        } finally {
            out.close();
        }
        if (!fresh.renameTo(file)) {
            throw new IOException("cannot replace " + file);
        }
    }

    private static double numberOf(String text) {
        try {
            return text == null ? 0 : Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return 0;
        }
    }
}
