package org.sluice.core;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** One setting of the engine: its flag, what it takes, and words for people. Never changes. */
public final class Setting {
    /** What a value may be. */
    public enum Kind {
        NUMBER,
        CHOICE,
        SWITCH
    }

    /** Heading under which it is shown. */
    public enum Group {
        MEMORY("Memory"),
        READING("Reading from storage"),
        COMPUTING("Computing"),
        ANSWERS("Thinking and sampling"),
        LOSSY("Lossy: another text than the model's");

        public final String title;

        Group(String title) {
            this.title = title;
        }
    }

    public final String name; // the flag without its dashes
    public final String title;
    public final String about;
    public final Group group;
    public final Kind kind;
    public final String unit;
    public final List<String> words; // a choice's, or what a number may be instead
    public final double least;
    public final double most;

    private Setting(Group group, String name, String title, String about, Kind kind, String unit, double least,
                    double most, String... words) {
        this.group = group;
        this.name = name;
        this.title = title;
        this.about = about;
        this.kind = kind;
        this.unit = unit;
        this.least = least;
        this.most = most;
        this.words = Collections.unmodifiableList(Arrays.asList(words));
    }

    static Setting number(Group group, String name, String title, String about, String unit, double least, double most,
                          String... words) {
        return new Setting(group, name, title, about, Kind.NUMBER, unit, least, most, words);
    }

    static Setting choice(Group group, String name, String title, String about, String... words) {
        return new Setting(group, name, title, about, Kind.CHOICE, "", 0, 0, words);
    }

    static Setting toggle(Group group, String name, String title, String about) {
        return new Setting(group, name, title, about, Kind.SWITCH, "", 0, 0, "on", "off");
    }

    public boolean lossy() {
        return group == Group.LOSSY;
    }

    /** Null if the setting takes `value`, else a sentence that says what it takes. */
    public String refusal(String value) {
        if (words.contains(value)) {
            return null;
        }
        String or = words.isEmpty() ? "" : " or " + join(words);
        if (kind != Kind.NUMBER) {
            return title + " is " + join(words) + ", not '" + value + "'.";
        }
        try {
            double number = Double.parseDouble(value);
            boolean plain = !value.isEmpty() && value.matches("-?[0-9]+(\\.[0-9]+)?");
            if (plain && number >= least && number <= most && (!whole() || number == Math.rint(number) && value.indexOf('.') < 0)) {
                return null;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        return title + " is a " + (whole() ? "whole " : "") + "number from " + text(least) + " to " + text(most)
            + (unit.isEmpty() ? "" : " (" + unit + ")") + or + ", not '" + value + "'.";
    }

    /** Words of the command line for a value that it takes. */
    public List<String> arguments(String value) {
        if (kind == Kind.SWITCH) {
            return Collections.singletonList("on".equals(value) ? "--" + name : "--no-" + name);
        }
        if (name.equals("moe-stream")) { // without a value it means "on": the word behind it would be another argument
            return Collections.singletonList("--" + name + "=" + value);
        }
        return Arrays.asList("--" + name, value);
    }

    /** Fractions are taken only where the bounds or the unit speak of them. */
    private boolean whole() {
        return !unit.equals("share") && !unit.equals("fraction") && least == Math.rint(least);
    }

    private static String text(double number) {
        return number == Math.rint(number) ? String.valueOf((long) number) : String.valueOf(number);
    }

    private static String join(List<String> words) {
        StringBuilder out = new StringBuilder();
        for (String word : words) {
            out.append(out.length() == 0 ? "" : ", ").append(word);
        }
        return out.toString();
    }
}
