package org.sluice.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Names of split models: "name-00001-of-00003.gguf". */
final class Parts {
    private static final Pattern NAME = Pattern.compile("(.*)-([0-9]{5})-of-([0-9]{5})\\.gguf");
    private static final int MOST = 999;

    private Parts() {}

    /** How many parts a file name says that there are; 1 if it says nothing. */
    static int count(String name) {
        Matcher matcher = NAME.matcher(name);
        int said = matcher.matches() ? Integer.parseInt(matcher.group(3)) : 1;
        return said < 1 || said > MOST ? 1 : said;
    }

    /** The name of part `number`, counted from 1, of the set that `name` is one of. */
    static String part(String name, int number) {
        Matcher matcher = NAME.matcher(name);
        return matcher.matches() && count(name) > 1
            ? String.format(Locale.ROOT, "%s-%05d-of-%s.gguf", matcher.group(1), number, matcher.group(3)) : name;
    }

    static boolean isFirst(String name) {
        return name.equals(part(name, 1));
    }

    /** Addresses of all parts of the set that `address` is one of; what stands behind a '?' stays. */
    static List<String> addresses(String address) {
        int end = address.indexOf('?') < 0 ? address.length() : address.indexOf('?');
        int start = address.lastIndexOf('/', end) + 1;
        String name = address.substring(start, end);
        List<String> all = new ArrayList<String>();
        for (int number = 1; number <= count(name); ++number) {
            all.add(address.substring(0, start) + part(name, number) + address.substring(end));
        }
        return all;
    }

    /** The file name at the end of an address; throws IllegalArgumentException, with a sentence, for what names no GGUF file. */
    static String fileName(String address) {
        String path = address.replaceAll("[?#].*", "");
        String name = path.substring(path.lastIndexOf('/') + 1);
        if (!address.matches("https?://[^/]+/.*") || !name.matches("[A-Za-z0-9][A-Za-z0-9._+-]*\\.gguf")) {
            throw new IllegalArgumentException("That is no http or https address of a file that ends in .gguf.");
        }
        return name;
    }
}
