package org.sluice.core;

import static org.junit.Assert.assertArrayEquals;
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
import java.util.Random;

public final class DownloadTest implements Download.Progress {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private Server server;
    private long last;
    private long total;

    @Before
    public void start() throws IOException {
        server = new Server();
    }

    @After
    public void stop() {
        server.stop();
    }

    @Override
    public void arrived(long bytes, long all, String name) {
        assertTrue("the bar never goes back", bytes >= last || bytes == 0);
        last = bytes;
        total = all;
    }

    private static byte[] model(int size, int seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        System.arraycopy("GGUF".getBytes(), 0, bytes, 0, 4);
        return bytes;
    }

    private Download download(String name) {
        Download download = new Download(server.address(name), folder.getRoot(), this);
        download.setPause(1);
        return download;
    }

    private byte[] arrived(String name) throws IOException {
        return java.nio.file.Files.readAllBytes(new File(folder.getRoot(), name).toPath());
    }

    private void assertFails(Download download, String why) {
        try {
            download.run();
            fail("it arrived");
        } catch (IOException e) {
            assertTrue(e.getMessage(), e.getMessage().contains(why));
        }
    }

    @Test
    public void bringsAllPartsOfASplitModelWithOneBar() throws IOException {
        for (int i = 1; i <= 3; ++i) {
            server.files.put("m-0000" + i + "-of-00003.gguf", model(300000 + i, i));
        }
        File first = download("m-00002-of-00003.gguf?download=true").run();
        assertEquals("m-00001-of-00003.gguf", first.getName());
        for (int i = 1; i <= 3; ++i) {
            assertArrayEquals(model(300000 + i, i), arrived("m-0000" + i + "-of-00003.gguf"));
        }
        assertEquals(900006, total);
        assertEquals(900006, last);
        assertEquals("nothing else is left", 3, folder.getRoot().list().length);
    }

    @Test
    public void goesOnWhereTheConnectionWasCut() throws IOException {
        server.files.put("m.gguf", model(500000, 1));
        server.cutAfter = 200000;
        download("moved/m.gguf").run();
        assertArrayEquals(model(500000, 1), arrived("m.gguf"));
        assertTrue(server.ranges.toString(), server.ranges.contains("bytes=200000-"));
    }

    @Test
    public void goesOnNextTimeAfterItWasStopped() throws IOException {
        server.files.put("m.gguf", model(500000, 1));
        final Download[] stopped = new Download[1];
        stopped[0] = new Download(server.address("m.gguf"), folder.getRoot(), new Download.Progress() {
            @Override
            public void arrived(long bytes, long all, String name) {
                stopped[0].cancel();
            }
        });
        assertFails(stopped[0], "goes on from here");
        long there = new File(folder.getRoot(), "m.gguf.part").length();
        assertTrue(there > 0);
        download("m.gguf").run();
        assertArrayEquals(model(500000, 1), arrived("m.gguf"));
        assertTrue(server.ranges.contains("bytes=" + there + "-"));
    }

    @Test
    public void beginsAnewWhenTheFileHasChanged() throws IOException {
        server.files.put("m.gguf", model(400000, 1));
        Files.write(new File(folder.getRoot(), "m.gguf.part"), "GGUF of another day");
        Files.write(new File(folder.getRoot(), "m.gguf.version"), "400000 \"0\"");
        download("m.gguf").run();
        assertArrayEquals(model(400000, 1), arrived("m.gguf"));
    }

    @Test
    public void beginsAnewWhereTheServerKnowsNoParts() throws IOException {
        server.files.put("m.gguf", model(400000, 1));
        server.knowsRanges = false;
        server.cutAfter = 100000;
        last = Long.MIN_VALUE;
        Download download = new Download(server.address("m.gguf"), folder.getRoot(), new Download.Progress() {
            @Override
            public void arrived(long bytes, long all, String name) {}
        });
        download.setPause(1);
        download.run();
        assertArrayEquals(model(400000, 1), arrived("m.gguf"));
    }

    @Test
    public void fetchesNothingThatIsThere() throws IOException {
        server.files.put("m.gguf", model(400000, 1));
        download("m.gguf").run();
        server.ranges.clear();
        download("m.gguf").run();
        assertEquals("[bytes=0-0]", server.ranges.toString());
    }

    @Test
    public void dropsWhatIsNoModel() {
        server.files.put("m.gguf", "<html>please log in</html>".getBytes());
        assertFails(download("m.gguf"), "no GGUF file");
        assertFalse(new File(folder.getRoot(), "m.gguf").exists());
        assertFalse(new File(folder.getRoot(), "m.gguf.part").exists());
    }

    @Test
    public void saysWhatTheServerRefused() {
        assertFails(download("m-00001-of-00002.gguf"), "status 404");
    }

    @Test
    public void checksForSpaceFirst() {
        try {
            Download.ensureSpace(folder.getRoot(), Long.MAX_VALUE / 2);
            fail("there was space");
        } catch (IOException e) {
            assertTrue(e.getMessage().startsWith("there is too little space"));
        }
    }

    @Test
    public void takesAddressesOfModelsOnly() {
        for (String address : new String[] {"", "m.gguf", "ftp://h/m.gguf", "https://h/", "https://h/..%2f.gguf", "https://h/m.bin"}) {
            try {
                new Download(address, folder.getRoot(), this);
                fail(address);
            } catch (IllegalArgumentException e) {
                assertTrue(e.getMessage().endsWith("."));
            }
        }
    }
}
