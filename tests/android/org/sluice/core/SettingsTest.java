package org.sluice.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;

public final class SettingsTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private File file() {
        return new File(folder.getRoot(), "settings");
    }

    private static Setting named(String name) {
        return SettingsList.named(name);
    }

    @Test
    public void areTheSameAfterTheAppWasEnded() throws IOException {
        Settings settings = new Settings(file());
        settings.setModel("/models/a b.gguf");
        settings.setPort(4711);
        settings.setReadRate(1.5e9);
        settings.set(named("row-stream"), "on");
        settings.save();
        Settings read = new Settings(file());
        assertEquals("/models/a b.gguf", read.model());
        assertEquals(4711, read.port());
        assertEquals(1.5e9, read.readRate(), 0);
        assertEquals("on", read.value(named("row-stream")));
        assertNull(read.value(named("direct")));
    }

    @Test
    public void aDamagedFileGivesNoneAndAWrongValueIsLeftOut() throws IOException {
        Files.write(file(), "model=\\u12");
        assertEquals("", new Settings(file()).model());
        Files.write(file(), "value.io-threads=900\nvalue.threads=4\nport=x");
        Settings settings = new Settings(file());
        assertNull(settings.value(named("io-threads")));
        assertEquals("4", settings.value(named("threads")));
        assertEquals(0, settings.port());
    }

    @Test
    public void thePanelsListIsTakenWholeOrNotAtAll() {
        Settings settings = new Settings(file());
        assertNull(settings.setAll("{\"row-stream\": true, \"cache-mb\": 600, \"lookahead\": \"off\"}"));
        assertEquals("on", settings.value(named("row-stream")));
        assertEquals("600", settings.value(named("cache-mb")));
        assertNotNull(settings.setAll("{\"cache-mb\": 700, \"nonsense\": 1}"));
        assertNotNull(settings.setAll("{\"cache-mb\": 700, \"threads\": 0.5}"));
        assertNotNull(settings.setAll("[1]"));
        assertNotNull(settings.setAll("{"));
        assertEquals("600", settings.value(named("cache-mb")));
        assertNull(settings.setAll("{\"cache-mb\": null}"));
        assertNull(settings.value(named("cache-mb")));
    }

    @Test
    public void theKeyIsNotOnTheCommandLine() {
        Settings settings = new Settings(file());
        settings.setModel("m.gguf");
        settings.setPort(8);
        List<String> words = CommandLine.serve("e", settings);
        Map<String, String> variables = CommandLine.environment("secret", "/cache");
        assertFalse(words.contains("secret"));
        assertTrue(variables.containsValue("secret"));
        assertEquals("[e, serve, --model, m.gguf, --host, 127.0.0.1, --port, 8]", words.toString());
    }

    @Test
    public void inspectIsAskedWithItsOwnFlags() {
        Settings settings = new Settings(file());
        settings.set(named("row-stream"), "on");
        settings.set(named("row-stream-mb"), "8");
        settings.set(named("direct"), "off");
        settings.set(named("temp"), "0");
        assertEquals("[e, inspect, m, --json, --moe-stream, --row-stream, --no-direct, --row-stream-mb, 8]",
            CommandLine.inspect("e", "m", settings).toString());
    }
}
