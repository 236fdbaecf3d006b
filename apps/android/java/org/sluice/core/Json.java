package org.sluice.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON text as Map, List, String, Double, Boolean and null, and back. Android has a reader of its own, but plain Java has
 * none, and these classes run on both.
 */
public final class Json {
    private static final int MOST_NESTED = 64;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Throws IllegalArgumentException, saying where, for what is not JSON. */
    public static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.skipSpace();
        if (json.at < text.length()) {
            throw json.wrong("something stands behind the value");
        }
        return value;
    }

    /** The member that a path of names and indices leads to; null if there is none. */
    public static Object get(Object value, Object... path) {
        for (Object step : path) {
            if (step instanceof Integer) {
                List<?> list = value instanceof List ? (List<?>) value : new ArrayList<Object>();
                int index = (Integer) step;
                value = index < list.size() ? list.get(index) : null;
            } else {
                value = value instanceof Map ? ((Map<?, ?>) value).get(step) : null;
            }
        }
        return value;
    }

    /** A number of `get()`, or `otherwise` where it is none. */
    public static double number(double otherwise, Object value, Object... path) {
        Object found = get(value, path);
        return found instanceof Double ? (Double) found : otherwise;
    }

    /** A text of `get()`, or an empty one. */
    public static String string(Object value, Object... path) {
        Object found = get(value, path);
        return found instanceof String ? (String) found : "";
    }

    public static List<?> list(Object value, Object... path) {
        Object found = get(value, path);
        return found instanceof List ? (List<?>) found : new ArrayList<Object>();
    }

    public static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; i < text.length(); ++i) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c == '<' || c == '\u2028' || c == '\u2029') { // the last three end scripts or lines of them
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private Object value(int depth) {
        if (depth > MOST_NESTED) {
            throw wrong("it is nested too deeply");
        }
        skipSpace();
        char c = peek();
        if (c == '{') {
            return object(depth);
        }
        if (c == '[') {
            return array(depth);
        }
        if (c == '"') {
            return string();
        }
        if (word("true")) {
            return Boolean.TRUE;
        }
        if (word("false")) {
            return Boolean.FALSE;
        }
        if (word("null")) {
            return null;
        }
        return number();
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new LinkedHashMap<String, Object>();
        ++at;
        skipSpace();
        while (peek() != '}') {
            skipSpace();
            if (peek() != '"') {
                throw wrong("a name is missing");
            }
            String name = string();
            skipSpace();
            expect(':');
            members.put(name, value(depth + 1));
            skipSpace();
            if (peek() != '}') {
                expect(',');
            }
        }
        ++at;
        return members;
    }

    private List<Object> array(int depth) {
        List<Object> items = new ArrayList<Object>();
        ++at;
        skipSpace();
        while (peek() != ']') {
            items.add(value(depth + 1));
            skipSpace();
            if (peek() != ']') {
                expect(',');
            }
        }
        ++at;
        return items;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        ++at;
        while (peek() != '"') {
            char c = text.charAt(at++);
            out.append(c == '\\' ? escaped() : c);
        }
        ++at;
        return out.toString();
    }

    private char escaped() {
        char c = peek();
        ++at;
        switch (c) {
        case 'n':
            return '\n';
        case 't':
            return '\t';
        case 'r':
            return '\r';
        case 'b':
            return '\b';
        case 'f':
            return '\f';
        case 'u':
            if (at + 4 > text.length()) {
                throw wrong("it ends within a letter");
            }
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        default:
            return c;
        }
    }

    private Double number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            ++at;
        }
        try {
            return Double.valueOf(text.substring(start, at));
        } catch (NumberFormatException e) {
            throw wrong("no value stands here");
        }
    }

    private boolean word(String word) {
        boolean found = text.startsWith(word, at);
        at += found ? word.length() : 0;
        return found;
    }

    private void expect(char c) {
        if (peek() != c) {
            throw wrong("'" + c + "' is missing");
        }
        ++at;
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong("it ends too early");
        }
        return text.charAt(at);
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            ++at;
        }
    }

    private IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException("not JSON: " + what + " (at letter " + at + ")");
    }
}
