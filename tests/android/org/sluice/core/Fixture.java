package org.sluice.core;

import static org.junit.Assume.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/** What the tests are given: the program and a model, by tests/android/run.sh. */
final class Fixture {
    private Fixture() {}

    /** The `sluice` of this build; a test that needs it is skipped where it was built without a server. */
    static String program() throws IOException {
        String program = System.getProperty("sluice.program", "");
        assumeTrue("no sluice program was given", !program.isEmpty());
        return program;
    }

    static String serverProgram() throws IOException {
        String program = program();
        assumeTrue("this sluice has no server", run(program, "serve", "--help").output.contains("Sluice's options"));
        return program;
    }

    static File model() {
        return new File(System.getProperty("sluice.model"));
    }

    static Program.Run run(String... words) throws IOException {
        return new Program(Arrays.asList(words), new File(System.getProperty("java.io.tmpdir"))).run();
    }

    static Program.Run run(List<String> words) throws IOException {
        return run(words.toArray(new String[0]));
    }
}
