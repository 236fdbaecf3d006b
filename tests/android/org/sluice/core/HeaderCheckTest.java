package org.sluice.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

import java.io.File;
import java.io.IOException;

public final class HeaderCheckTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private Server server;
    private Settings settings;

    @Before
    public void start() throws IOException {
        server = new Server();
        settings = new Settings(new File(folder.getRoot(), "settings"));
    }

    @After
    public void stop() {
        server.stop();
    }

    private HeaderCheck check() throws IOException {
        return new HeaderCheck(Fixture.program(), settings, folder.getRoot());
    }

    @Test
    public void plansFromTheHeaderAloneWhatItPlansFromTheFile() throws IOException {
        byte[] model = java.nio.file.Files.readAllBytes(Fixture.model().toPath());
        server.files.put("m.gguf", model);
        settings.set(SettingsList.named("ram-mb"), "4000"); // else the plan depends on the moment
        settings.set(SettingsList.named("cache-mb"), "8");
        settings.set(SettingsList.named("moe-stream"), "on");
        String remote = check().ofAddress(server.address("m.gguf")).text(0);
        // The program's own size differs by a MiB from run to run.
        String sizes = "take \\d+ MiB";
        String local = check().ofFile(Fixture.model()).text(0);
        assertEquals(local.replaceAll(sizes, "take N MiB"), remote.replaceAll(sizes, "take N MiB"));
        assertTrue(remote, remote.contains("It will run (streaming)"));
        assertTrue(remote, remote.contains("unmeasured"));
        assertTrue("bytes sent: " + server.sent, server.sent < model.length / 4);
        assertFalse("what was fetched is gone", new File(folder.getRoot(), "header").exists());
    }

    @Test
    public void boundsTheSpeedByTheLastRunsReading() throws IOException {
        settings.set(SettingsList.named("cache-mb"), "8");
        settings.set(SettingsList.named("moe-stream"), "on");
        String text = check().ofFile(Fixture.model()).text(1 << 30);
        assertTrue(text, text.contains("At the 1.0 GiB/s of the last run that takes "));
    }

    @Test
    public void saysWhyAModelDoesNotRun() throws IOException {
        settings.set(SettingsList.named("ram-mb"), "5");
        String text = check().ofFile(Fixture.model()).text(0);
        assertTrue(text, text.contains("It will not run: "));
    }

    @Test
    public void saysWhatIsNoModel() throws IOException {
        server.files.put("m.gguf", new byte[100]);
        try {
            check().ofAddress(server.address("m.gguf"));
            fail("it was one");
        } catch (IOException e) {
            assertTrue(e.getMessage(), e.getMessage().contains("m.gguf"));
        }
    }
}
