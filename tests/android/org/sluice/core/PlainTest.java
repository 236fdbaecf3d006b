package org.sluice.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;

/** The small classes. */
public final class PlainTest {
    private static final Download.Progress NOBODY = new Download.Progress() {
        @Override
        public void arrived(long bytes, long total, String name) {}
    };

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    @Test
    public void jsonIsReadAsItWasWritten() {
        Object value = Json.parse(" {\"a\": [1, -2.5e3, \"x\\n\\u00e9\\\"\", true, false, null], \"b\": {}} ");
        assertEquals(-2500.0, Json.number(0, value, "a", 1), 0);
        assertEquals("x\n\u00e9\"", Json.string(value, "a", 2));
        assertEquals(Boolean.TRUE, Json.get(value, "a", 3));
        assertNull(Json.get(value, "a", 5));
        assertNull(Json.get(value, "a", 9, "c"));
        assertEquals("\u2028</x>\"\\", Json.parse(Json.quote("\u2028</x>\"\\")));
        assertFalse(Json.quote("</script>").contains("<"));
    }

    @Test
    public void whatIsNoJsonIsRefused() {
        for (String text : new String[] {"", "{", "[1,]x", "{\"a\" 1}", "\"", "nul", "1 2", "{a:1}", "\"\\u12"}) {
            try {
                Json.parse(text);
                fail(text);
            } catch (IllegalArgumentException e) {
                assertTrue(e.getMessage(), e.getMessage().startsWith("not JSON"));
            }
        }
    }

    @Test
    public void knowsTheNamesOfParts() {
        assertEquals(12, Parts.count("a-b-00003-of-00012.gguf"));
        assertEquals("a-b-00001-of-00012.gguf", Parts.part("a-b-00003-of-00012.gguf", 1));
        assertEquals(1, Parts.count("a.gguf"));
        assertEquals("a.gguf", Parts.part("a.gguf", 1));
        assertEquals(1, Parts.count("a-00001-of-00000.gguf"));
        assertEquals("[http://h/x/a-00001-of-00002.gguf?k=/v, http://h/x/a-00002-of-00002.gguf?k=/v]",
            Parts.addresses("http://h/x/a-00002-of-00002.gguf?k=/v").toString());
    }

    @Test
    public void choosesTheBuildThatEveryCoreCanRun() {
        String small = "Features\t: fp asimd aes\n";
        String dot = "Features\t: fp asimd asimdhp asimddp\n";
        String mm = "Features\t: fp asimd asimdhp asimddp i8mm\n";
        assertEquals("libsluice_i8mm.so", CpuChoice.library(mm + mm));
        assertEquals("libsluice_dotprod.so", CpuChoice.library(mm + dot));
        assertEquals("libsluice_v8.so", CpuChoice.library(small + mm));
        assertEquals("libsluice_v8.so", CpuChoice.library(""));
    }

    @Test
    public void takesTheBestBuildThatIsPacked() throws IOException {
        String mm = "Features : asimdhp asimddp i8mm\n";
        folder.newFile("libsluice_v8.so");
        assertEquals("libsluice_v8.so", CpuChoice.engine(folder.getRoot(), mm).getName());
        folder.newFile("libsluice_dotprod.so");
        assertEquals("libsluice_dotprod.so", CpuChoice.engine(folder.getRoot(), mm).getName());
    }

    @Test
    public void listsModelsByTheirFirstPart() throws IOException {
        for (String name : new String[] {"b.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "c-00001-of-00002.gguf",
                 "d.gguf.part"}) {
            Files.write(folder.newFile(name), "12345");
        }
        java.util.List<ModelFolder.Model> models = new ModelFolder(folder.getRoot()).list();
        assertEquals(3, models.size());
        assertEquals(10, models.get(0).bytes);
        assertTrue(models.get(0).complete);
        assertFalse(models.get(2).complete);
        assertTrue(models.get(0).delete());
        assertEquals(2, new ModelFolder(folder.getRoot()).list().size());
    }

    @Test
    public void aCopyIsWholeOrNotThere() throws IOException {
        ModelFolder models = new ModelFolder(folder.getRoot());
        File copied = models.copyIn(new ByteArrayInputStream(new byte[3000000]), "../a b.gguf", 3000000, NOBODY);
        assertEquals("a_b.gguf", copied.getName());
        assertEquals(3000000, copied.length());
        try {
            models.copyIn(new ByteArrayInputStream(new byte[10]), "short.gguf", 11, NOBODY);
            fail("it was whole");
        } catch (IOException e) {
            assertEquals("short.gguf has 11 bytes, but 10 came", e.getMessage());
        }
        assertEquals(1, folder.getRoot().list().length);
    }

    @Test
    public void theOpeningPageKeepsWhatItFindsAndEscapesTheKey() {
        String page = OpeningPage.html("k\"</script>", "/flash");
        assertTrue(page.contains("kept.apiKey = \"k\\\"\\u003c/script>\""));
        assertTrue(page.contains("location.replace(\"/flash\")"));
    }

    @Test
    public void theNotificationSaysOnlyWhatIsNow() {
        String state = "{\"time_ms\": %d, \"memory\": {\"resident_bytes\": 1610612736}, \"models\": [{\"sample\": {\"time_ms\": 1000,"
            + " \"interval_ms\": 2000, \"tokens\": 25}}]}";
        assertEquals("12.5 tokens/s, 1.5 GiB of memory", new FlashState(Json.parse(String.format(state, 2000))).line());
        assertEquals("ready, 1.5 GiB of memory", new FlashState(Json.parse(String.format(state, 9000))).line());
        assertEquals("ready", new FlashState(Json.parse("{}")).line());
    }
}
