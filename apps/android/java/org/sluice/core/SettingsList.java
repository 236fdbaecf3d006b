package org.sluice.core;

import static org.sluice.core.Setting.Group.ANSWERS;
import static org.sluice.core.Setting.Group.COMPUTING;
import static org.sluice.core.Setting.Group.LOSSY;
import static org.sluice.core.Setting.Group.MEMORY;
import static org.sluice.core.Setting.Group.READING;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * All settings that the app offers: the engine's own in the order of `sluice serve --help`, with its sentences, then
 * llama.cpp's. A test compares this list with the help, both ways.
 */
public final class SettingsList {
    private static final double MOST_MIB = 1 << 30;

    private static final List<Setting> ALL = Collections.unmodifiableList(Arrays.asList(
        Setting.number(MEMORY, "ram-mb", "Memory ceiling",
            "Ceiling on all the memory that the process takes (default: what is free now)", "MiB", 1, MOST_MIB),
        Setting.choice(MEMORY, "moe-stream", "Stream experts",
            "Stream experts from storage, or hold the whole model in memory", "auto", "on", "off"),
        Setting.number(MEMORY, "cache-mb", "Expert cache", "Expert cache; auto: what memory allows", "MiB", 1, MOST_MIB,
            "auto"),
        Setting.choice(MEMORY, "cache-policy", "Cache policy", "How a full cache chooses the experts it drops",
            "next-use", "lru", "lfu"),
        Setting.choice(MEMORY, "dense-weights", "Dense weights",
            "How weights that every token needs are held while streaming", "anon", "mmap", "warm", "locked", "ahwb"),
        Setting.toggle(MEMORY, "row-stream", "Stream row-gathered tables",
            "Read only the rows that are gathered of weights never multiplied"),
        Setting.number(MEMORY, "row-stream-mb", "Window of such rows", "How much of such rows stays in memory", "MiB",
            1.0 / 64, 1 << 24),
        Setting.number(READING, "lookahead", "Lookahead",
            "Guess so many of the next layer's experts and read them ahead", "experts", 0, 1024, "auto", "off"),
        Setting.number(READING, "io-threads", "Reading lanes",
            "Threads that read experts, instead of io_uring (default: the run finds out)", "threads", 1, 64),
        Setting.toggle(READING, "direct", "Direct reads", "Read past the page cache where the file system can"),
        Setting.toggle(READING, "hot-set", "Hot set",
            "Begin with the experts that the last run held, and keep them for the next"),
        Setting.number(LOSSY, "n-expert-used", "Experts per token",
            "Experts that a token uses in each layer, instead of the model's number", "experts", 1, 1024),
        Setting.number(LOSSY, "drop-cold", "Leave out light experts",
            "Leave out experts not in the cache that weigh less than this share of an even one", "share", 0, 1024),
        Setting.number(LOSSY, "substitute", "Use cached experts instead",
            "Use cached experts in the place of missing ones whose router score is higher by at most this share of the "
                + "scores' range",
            "share", 0, 1),
        Setting.number(COMPUTING, "threads", "Compute threads",
            "Threads that compute (default: the fast cores, and the run finds out whether fewer do better)", "threads",
            1, 64),
        Setting.number(COMPUTING, "ctx-size", "Context", "Tokens that a conversation may hold; each takes memory",
            "tokens", 64, 1 << 20),
        Setting.choice(ANSWERS, "reasoning", "Thinking", "Let the model think before it answers, if it can", "auto",
            "on", "off"),
        Setting.number(ANSWERS, "temp", "Temperature", "How freely words are drawn; 0: always the likeliest one",
            "fraction", 0, 10),
        Setting.number(ANSWERS, "top-k", "Top k", "Draw among the k likeliest words only; 0: all", "words", 0,
            1 << 20),
        Setting.number(ANSWERS, "top-p", "Top p", "Draw among the likeliest words that together have this share",
            "fraction", 0, 1),
        Setting.number(ANSWERS, "min-p", "Min p", "Leave out words below this share of the likeliest one's", "fraction",
            0, 1)));

    /** The engine's options that make no sense in the app: it has no io_uring, so nothing is to be chosen. */
    public static final List<String> NOT_OFFERED = Collections.unmodifiableList(Arrays.asList("io-engine", "io-depth"));

    private SettingsList() {}

    public static List<Setting> all() {
        return ALL;
    }

    /** Null if there is none of that name. */
    public static Setting named(String name) {
        for (Setting setting : ALL) {
            if (setting.name.equals(name)) {
                return setting;
            }
        }
        return null;
    }

    public static List<Setting> of(Setting.Group group) {
        List<Setting> found = new ArrayList<Setting>();
        for (Setting setting : ALL) {
            if (setting.group == group) {
                found.add(setting);
            }
        }
        return found;
    }
}
