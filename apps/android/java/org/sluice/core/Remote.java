package org.sluice.core;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URL;

/** A file behind an address: its size, and its bytes from any place on. */
final class Remote {
    private static final int TIMEOUT_MS = 30000;
    private static final int MOST_REDIRECTS = 8;

    final String address;
    final long size;
    final String version; // changes with the file's content; may be empty
    final boolean ranges; // it can be asked for a part

    private Remote(String address, long size, String version, boolean ranges) {
        this.address = address;
        this.size = size;
        this.version = version;
        this.ranges = ranges;
    }

    /** Asks for one byte, which tells the size of all. */
    static Remote look(String address) throws IOException {
        HttpURLConnection connection = open(address, "bytes=0-0", "");
        try {
            int status = connection.getResponseCode();
            String etag = connection.getHeaderField("ETag");
            if (status == HttpURLConnection.HTTP_PARTIAL) {
                String range = connection.getHeaderField("Content-Range"); // bytes 0-0/SIZE
                String total = range == null ? "" : range.replaceAll(".*/", "");
                if (!total.matches("[0-9]{1,18}")) {
                    throw new IOException("the server does not say how large " + Parts.fileName(address) + " is");
                }
                return new Remote(address, Long.parseLong(total), etag == null ? "" : etag, true);
            }
            String length = connection.getHeaderField("Content-Length");
            if (status != HttpURLConnection.HTTP_OK || length == null || !length.matches("[0-9]{1,18}")) {
                throw refused(address, status);
            }
            return new Remote(address, Long.parseLong(length), etag == null ? "" : etag, false);
        } finally {
            connection.disconnect();
        }
    }

    /**
     * A connection whose stream begins at byte `from` and holds `count` bytes or, if that is 0, all the rest; or, where
     * the server can't or the file has changed, begins at 0 (`beginsAt()`).
     */
    HttpURLConnection read(long from, long count) throws IOException {
        String range = "bytes=" + from + "-" + (count > 0 ? String.valueOf(from + count - 1) : "");
        HttpURLConnection connection = open(address, from > 0 || count > 0 ? range : "", from > 0 ? version : "");
        int status = connection.getResponseCode();
        if (status != HttpURLConnection.HTTP_OK && status != HttpURLConnection.HTTP_PARTIAL) {
            connection.disconnect();
            throw refused(address, status);
        }
        return connection;
    }

    static long beginsAt(HttpURLConnection connection) throws IOException {
        String range = connection.getHeaderField("Content-Range");
        if (connection.getResponseCode() != HttpURLConnection.HTTP_PARTIAL || range == null) {
            return 0;
        }
        return Long.parseLong(range.replaceAll("bytes ([0-9]+)-.*", "$1"));
    }

    private static IOException refused(String address, int status) {
        return new IOException("the server answered with status " + status + " when asked for " + Parts.fileName(address));
    }

    /** Follows redirections itself: Java's own stops where http becomes https. */
    private static HttpURLConnection open(String address, String range, String ifVersion) throws IOException {
        String at = address;
        for (int i = 0; i < MOST_REDIRECTS; ++i) {
            HttpURLConnection connection = (HttpURLConnection) new URL(at).openConnection();
            connection.setInstanceFollowRedirects(false);
            connection.setConnectTimeout(TIMEOUT_MS);
            connection.setReadTimeout(TIMEOUT_MS);
            connection.setRequestProperty("Accept-Encoding", "identity");
            if (!range.isEmpty()) {
                connection.setRequestProperty("Range", range);
            }
            if (!ifVersion.isEmpty() && !ifVersion.startsWith("W/")) {
                connection.setRequestProperty("If-Range", ifVersion);
            }
            int status = connection.getResponseCode();
            String next = connection.getHeaderField("Location");
            if (status < 300 || status >= 400 || next == null) {
                return connection;
            }
            connection.disconnect();
            String from = at;
            at = new URL(new URL(at), next).toString();
            if (from.startsWith("https:") && !at.startsWith("https:")) {
                throw new IOException("the server led from https to another protocol");
            }
        }
        throw new IOException("the server led from one address to the next " + MOST_REDIRECTS + " times");
    }
}
