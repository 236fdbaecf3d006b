package org.sluice.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;

/** Talks to the engine's flash panel interface (docs/flash.md). Every call blocks: not for the thread that draws. */
public final class FlashClient {
    private static final int CONNECT_MS = 1000;
    private static final int READ_MS = 10000;

    private final String base;
    private final String key;

    public FlashClient(int port, String key) {
        this.base = "http://" + CommandLine.HOST + ":" + port;
        this.key = key;
    }

    /** It has loaded its model and answers. */
    public boolean healthy() {
        try {
            request("GET", "/health", null);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    public FlashState state() throws IOException {
        return new FlashState(Json.parse(request("GET", "/flash/state", null)));
    }

    /** Has the caches give back what they can spare. Returns bytes. */
    public long trim() throws IOException {
        return (long) Json.number(0, Json.parse(request("POST", "/flash/trim", "{}")), "freed_bytes");
    }

    /** Changes a setting that may change while the engine runs. Throws with the server's sentence if it may not. */
    public void change(Setting setting, String value) throws IOException {
        boolean bare = value.matches("-?[0-9]+(\\.[0-9]+)?");
        request("POST", "/flash/settings",
            "{\"values\":{" + Json.quote(setting.name) + ":" + (bare ? value : Json.quote(value)) + "}}");
    }

    /** Sends a request and returns what came back; anything but success throws with the server's sentence. */
    public String request(String method, String path, String body) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(base + path).openConnection(java.net.Proxy.NO_PROXY);
        try {
            connection.setConnectTimeout(CONNECT_MS);
            connection.setReadTimeout(READ_MS);
            connection.setRequestMethod(method);
            connection.setRequestProperty("Authorization", "Bearer " + key);
            if (body != null) {
                connection.setDoOutput(true);
                connection.setRequestProperty("Content-Type", "application/json");
                OutputStream out = connection.getOutputStream();
                out.write(body.getBytes("UTF-8"));
                out.close();
            }
            int status = connection.getResponseCode();
            if (status >= 200 && status < 300) {
                return Files.readAll(connection.getInputStream());
            }
            throw new IOException(sentence(status, connection.getErrorStream()));
        } catch (IllegalArgumentException e) {
            throw new IOException("the engine's answer makes no sense: " + e.getMessage(), e);
        } finally {
            connection.disconnect();
        }
    }

    private static String sentence(int status, InputStream error) throws IOException {
        String text = error == null ? "" : Files.readAll(error);
        try {
            String message = Json.string(Json.parse(text), "error", "message");
            return message.isEmpty() ? "the engine answered with status " + status : message;
        } catch (IllegalArgumentException e) {
            return "the engine answered with status " + status;
        }
    }
}
