package org.sluice.core;

/**
 * A page that the app opens in the engine's place: it hands the key of this start to the chat page and the flash panel,
 * where these keep it, and goes on to one of them. Everything else that they keep stays.
 */
public final class OpeningPage {
    private static final String CHAT_SETTINGS = "LlamaUi.config"; // in llama.cpp's page
    private static final String PANEL_KEY = "sluice-api-key";     // in apps/flash/server.js

    private OpeningPage() {}

    /** `path` begins with '/'. */
    public static String html(String key, String path) {
        return "<!doctype html><meta charset=utf-8><title>Sluice</title><script>\n"
            + "let kept = {};\n"
            + "try { kept = JSON.parse(localStorage.getItem(" + Json.quote(CHAT_SETTINGS) + ")) || {}; } catch (e) {}\n"
            + "kept.apiKey = " + Json.quote(key) + ";\n"
            + "localStorage.setItem(" + Json.quote(CHAT_SETTINGS) + ", JSON.stringify(kept));\n"
            + "sessionStorage.setItem(" + Json.quote(PANEL_KEY) + ", kept.apiKey);\n"
            + "location.replace(" + Json.quote(path) + ");\n"
            + "</script>\n";
    }
}
