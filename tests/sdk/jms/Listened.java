import jakarta.jms.CompletionListener;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What the client's own threads tell: messages, completions and errors. */
final class Listened implements CompletionListener, MessageListener {
    private final LinkedBlockingQueue<Object> heard = new LinkedBlockingQueue<>();

    @Override
    public void onMessage(Message message) {
        heard.add(message);
    }

    @Override
    public void onCompletion(Message message) {
        heard.add(message);
    }

    @Override
    public void onException(Message message, Exception error) {
        heard.add(error);
    }

    /** The next so many messages. */
    List<Message> await(int count) throws Exception {
        var messages = new ArrayList<Message>();
        while (messages.size() < count) {
            var next = heard.poll(Space.WAIT, TimeUnit.MILLISECONDS);
            Expect.that(next != null, messages.size() + " of " + count + " are heard of");
            if (next instanceof Exception error) throw error;
            messages.add((Message) next);
        }
        return messages;
    }

    boolean isQuiet() throws InterruptedException {
        return heard.poll(Space.QUIET, TimeUnit.MILLISECONDS) == null;
    }
}
