package org.sluice.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The app's settings, flag by flag against the engine's own help. */
public final class SettingsListTest {
    private static final Pattern FLAG = Pattern.compile("^--([a-z-]+)[^\n]*?(?:  |\n +)([A-Z][^\n]*)", Pattern.MULTILINE);

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private String program;
    private String help;

    @Before
    public void readHelp() throws IOException {
        program = Fixture.serverProgram();
        help = Fixture.run(program, "serve", "--help").output;
    }

    private String ownHelp() {
        return help.substring(0, help.indexOf("llama.cpp's own options"));
    }

    private Settings settings() {
        Settings settings = new Settings(new File(folder.getRoot(), "settings"));
        settings.setModel(Fixture.model().getPath());
        settings.setPort(1);
        return settings;
    }

    @Test
    public void offersTheEnginesOptionsInTheOrderOfItsHelp() {
        List<String> inHelp = new ArrayList<String>();
        Matcher matcher = FLAG.matcher(ownHelp());
        while (matcher.find()) {
            if (!matcher.group(1).equals("plan")) {
                inHelp.add(matcher.group(1));
            }
        }
        List<String> offered = new ArrayList<String>();
        for (Setting setting : SettingsList.all()) {
            if (inHelp.contains(setting.name)) {
                offered.add(setting.name);
            }
        }
        assertTrue("the help was read", inHelp.size() > 10);
        inHelp.removeAll(SettingsList.NOT_OFFERED);
        assertEquals(inHelp, offered);
    }

    @Test
    public void saysOfThemWhatTheHelpSays() {
        Matcher matcher = FLAG.matcher(ownHelp());
        while (matcher.find()) {
            Setting setting = SettingsList.named(matcher.group(1));
            if (setting != null) {
                assertEquals(setting.name, (setting.lossy() ? "Lossy: " : "") + setting.about, matcher.group(2).trim());
            }
        }
    }

    @Test
    public void theSwitchForRowTablesStandsRightBehindDenseWeights() {
        List<String> names = new ArrayList<String>();
        for (Setting setting : SettingsList.of(Setting.Group.MEMORY)) {
            names.add(setting.name);
        }
        int dense = names.indexOf("dense-weights");
        assertEquals(Arrays.asList("row-stream", "row-stream-mb"), names.subList(dense + 1, dense + 3));
    }

    @Test
    public void everyOtherSettingIsAFlagOfTheServer() {
        for (Setting setting : SettingsList.all()) {
            assertTrue(setting.name, help.matches("(?s).*[\n, ]--" + setting.name + "[ ,\n].*"));
        }
    }

    @Test
    public void theEngineTakesEveryWordOfEverySetting() throws IOException {
        for (Setting setting : SettingsList.all()) {
            for (String value : valuesOf(setting)) {
                Settings settings = settings();
                assertNull(setting.name, settings.set(setting, value));
                assertAccepted(settings, setting.name + "=" + value);
            }
        }
    }

    private static List<String> valuesOf(Setting setting) {
        List<String> values = new ArrayList<String>(setting.words);
        values.remove("ahwb"); // refused where there is no Android, by a sentence of its own
        if (setting.kind == Setting.Kind.NUMBER) {
            values.add(setting.name.equals("ram-mb") || setting.name.equals("ctx-size") ? "2048" : "1");
        }
        return values;
    }

    @Test
    public void theEngineTakesAllSettingsTogether() throws IOException {
        Settings settings = settings();
        for (Setting setting : SettingsList.all()) {
            List<String> values = valuesOf(setting);
            assertNull(settings.set(setting, setting.name.equals("moe-stream") ? "on" : values.get(values.size() - 1)));
        }
        settings.set(SettingsList.named("row-stream"), "on");
        settings.set(SettingsList.named("cache-mb"), "64");
        settings.set(SettingsList.named("dense-weights"), "anon");
        assertAccepted(settings, "all");
        assertEquals(0, Fixture.run(CommandLine.inspect(program, Fixture.model().getPath(), settings)).code);
    }

    private void assertAccepted(Settings settings, String what) throws IOException {
        List<String> words = new ArrayList<String>(CommandLine.serve(program, settings));
        words.add("--plan");
        Program.Run run = Fixture.run(words);
        assertEquals(what + ": " + run.errors, 0, run.code);
    }

    @Test
    public void refusesWhatTheEngineWouldRefuse() {
        assertNotNull(SettingsList.named("cache-mb").refusal("much"));
        assertNotNull(SettingsList.named("cache-mb").refusal("0"));
        assertNotNull(SettingsList.named("io-threads").refusal("65"));
        assertNotNull(SettingsList.named("io-threads").refusal("1.5"));
        assertNotNull(SettingsList.named("substitute").refusal("1.1"));
        assertNotNull(SettingsList.named("temp").refusal("0x1"));
        assertNotNull(SettingsList.named("temp").refusal("NaN"));
        assertNotNull(SettingsList.named("dense-weights").refusal("cloud"));
        assertNotNull(SettingsList.named("row-stream").refusal("1"));
        assertNull(SettingsList.named("row-stream-mb").refusal("0.5"));
        assertNull(SettingsList.named("lookahead").refusal("off"));
    }
}
