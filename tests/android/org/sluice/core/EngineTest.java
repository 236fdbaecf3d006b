package org.sluice.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The process keeper and the flash client against a real `sluice serve`. */
public final class EngineTest implements Engine.Listener, Engine.Ender {
    private static final long PATIENCE_MS = 120000;

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private final List<Engine.State> states = Collections.synchronizedList(new ArrayList<Engine.State>());
    private volatile String sentence = "";
    private Settings settings;
    private Engine engine;

    @Before
    public void make() throws IOException {
        settings = new Settings(new File(folder.getRoot(), "settings"));
        settings.setModel(Fixture.model().getPath());
        settings.set(SettingsList.named("moe-stream"), "on");
        settings.set(SettingsList.named("cache-mb"), "16");
        settings.set(SettingsList.named("ctx-size"), "256");
        settings.set(SettingsList.named("threads"), "1");
        engine = newEngine();
    }

    private Engine newEngine() throws IOException {
        return new Engine(Fixture.serverProgram(), folder.getRoot(), settings, this, this);
    }

    @After
    public void end() {
        if (engine != null) {
            engine.stop();
        }
    }

    @Override
    public void changed(Engine.State state, String text) {
        states.add(state);
        sentence = text;
    }

    @Override
    public void end(int pid) {
        signal("-TERM", pid);
    }

    private static void signal(String which, int pid) {
        try {
            new ProcessBuilder("kill", which, String.valueOf(pid)).start().waitFor();
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void await(Engine.State wanted, int times) throws InterruptedException {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (Collections.frequency(states, wanted) < times && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
        assertTrue(states + ": " + sentence + "\n" + engine.log(), Collections.frequency(states, wanted) >= times);
    }

    private FlashClient client() {
        return new FlashClient(settings.port(), engine.key());
    }

    private String complete(String prompt) throws IOException {
        String answer = client().request("POST", "/completion",
            "{\"prompt\": " + Json.quote(prompt) + ", \"n_predict\": 16, \"temperature\": 0}");
        return Json.string(Json.parse(answer), "content");
    }

    /** The panel looks once a second, so a state may be a second old. */
    private FlashState awaitChosen(String setting, String wanted) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        FlashState state = client().state();
        while (!state.chosen(SettingsList.named(setting)).startsWith(wanted) && System.currentTimeMillis() < end) {
            Thread.sleep(50);
            state = client().state();
        }
        String chosen = state.chosen(SettingsList.named(setting));
        assertTrue(setting + " is " + chosen, chosen.startsWith(wanted));
        return state;
    }

    private int pid() {
        return Integer.parseInt(Files.readIfThere(new File(folder.getRoot(), "engine.pid")));
    }

    @Test
    public void startsAnswersTrimsChangesAndStops() throws Exception {
        settings.set(SettingsList.named("row-stream"), "on");
        engine.start();
        await(Engine.State.RUNNING, 1);
        assertFalse(complete("Once upon a time").isEmpty());

        FlashState state = awaitChosen("cache-mb", "16 MiB");
        assertTrue(state.line(), state.line().contains("of memory"));
        awaitChosen("row-stream", "on");
        String raw = client().request("GET", "/flash/state", null);
        assertTrue(raw, Json.number(0, Json.parse(raw), "models", 0, "rows", "rows") > 0);

        assertTrue(client().trim() > 0);
        assertTrue(state.changesNow(SettingsList.named("cache-mb")));
        client().change(SettingsList.named("cache-mb"), "12");
        awaitChosen("cache-mb", "12 MiB");
        try {
            client().change(SettingsList.named("threads"), "2");
            fail("threads were changed");
        } catch (IOException e) {
            assertTrue(e.getMessage(), e.getMessage().contains("threads"));
        }

        engine.stop();
        assertEquals(Engine.State.STOPPED, engine.state());
        assertFalse(client().healthy());
        assertEquals("[STARTING, RUNNING, STOPPED]", states.toString());
    }

    @Test
    public void isStartedAgainWhenItIsKilledAtTheSameAddressWithAnotherKey() throws Exception {
        engine.start();
        await(Engine.State.RUNNING, 1);
        int port = settings.port();
        String key = engine.key();
        String text = complete("The cat");
        signal("-KILL", pid());
        await(Engine.State.RUNNING, 2);
        assertEquals(port, settings.port());
        assertNotEquals(key, engine.key());
        assertEquals(text, complete("The cat"));
        assertTrue(states.toString(), states.contains(Engine.State.WAITING));
    }

    @Test
    public void refusesWhoHasNoKey() throws Exception {
        engine.start();
        await(Engine.State.RUNNING, 1);
        try {
            new FlashClient(settings.port(), "guess").state();
            fail("it answered");
        } catch (IOException e) {
            assertTrue(e.getMessage(), e.getMessage().toLowerCase().contains("key"));
        }
    }

    @Test
    public void takesTheEnginesPlaceThatAnEndedAppLeftBehind() throws Exception {
        engine.start();
        await(Engine.State.RUNNING, 1);
        int left = pid();
        Engine forgotten = engine;
        engine = newEngine(); // as in a new process of the app
        engine.start();
        await(Engine.State.RUNNING, 2);
        assertNotEquals(left, pid());
        assertFalse(new File("/proc/" + left + "/exe").exists());
        forgotten.stop();
        assertTrue(client().healthy());
    }

    @Test
    public void saysWhenItsAddressIsTaken() throws Exception {
        ServerSocket other = new ServerSocket(0, 1, InetAddress.getByName(CommandLine.HOST));
        settings.setPort(other.getLocalPort());
        engine.start();
        await(Engine.State.FAILED, 1);
        assertTrue(sentence, sentence.contains("port " + other.getLocalPort()));
        other.close();
    }

    @Test
    public void givesUpOnAModelThatIsNone() throws Exception {
        File wrong = folder.newFile("wrong.gguf");
        settings.setModel(wrong.getPath());
        engine.start();
        await(Engine.State.FAILED, 1);
        assertTrue(engine.log(), engine.log().contains("wrong.gguf"));
        assertEquals(Arrays.asList(Engine.State.FAILED), new ArrayList<Engine.State>(states).subList(states.size() - 1, states.size()));
    }

    @Test
    public void aStartInThePlaceOfOneThatRunsTakesTheNewSettings() throws Exception {
        engine.start();
        await(Engine.State.RUNNING, 1);
        settings.set(SettingsList.named("dense-weights"), "mmap");
        engine.start();
        await(Engine.State.RUNNING, 2);
        awaitChosen("dense-weights", "mmap");
    }
}
