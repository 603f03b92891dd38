import jakarta.jms.JMSException;
import java.util.Objects;

/** What a check holds; the first that does not hold ends the check. */
final class Expect {
    private Expect() {}

    @FunctionalInterface
    interface Call {
        void run() throws Exception;
    }

    static void that(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void equal(Object expected, Object found, String what) {
        that(Objects.deepEquals(expected, found), what + ": " + found + ", not " + expected);
    }

    /** The call is refused with this condition, and the words say what to do. */
    static void refused(String condition, String words, Call call) throws Exception {
        try {
            call.run();
        } catch (JMSException error) {
            var said = String.valueOf(error.getMessage());
            that(said.contains(condition) && said.contains(words), "it is refused with: " + said);
            return;
        }
        throw new AssertionError("it is not refused with " + condition);
    }
}
