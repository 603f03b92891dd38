import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs the checks of Apache Qpid JMS, unmodified, against a cluster. */
public final class Suite {
    /** Seconds a check may take. */
    private static final long CHECK_MAX = 60;

    private static final int JOBS = 8;
    private static final int FAILURE_CHARS_MAX = 240;

    private record Result(Check check, String failure, String trace) {}

    private Suite() {}

    public static void main(String[] args) throws Exception {
        var flags = flags(args);
        var cluster = new Cluster(flags.get("--amqp"), flags.get("--http"));
        var only = flags.get("--only");
        var results = run(cluster, checks(only));
        var failed = results.stream().filter(result -> result.failure != null).toList();
        for (var result : only == null ? List.<Result>of() : failed) {
            System.out.println("jms " + result.check.name() + ": " + result.trace);
        }
        var passed = results.size() - failed.size();
        System.out.println("JMS: " + passed + " of " + results.size() + " checks passed");
        if (flags.get("--json") != null) Files.writeString(Path.of(flags.get("--json")), json(results));
        System.exit(failed.isEmpty() && !results.isEmpty() ? 0 : 1);
    }

    static Map<String, String> flags(String[] args) {
        var flags = new HashMap<String, String>();
        for (var at = 0; at < args.length; at++) {
            var isAlone = at + 1 == args.length || args[at + 1].startsWith("--");
            flags.put(args[at], isAlone ? "" : args[++at]);
        }
        return flags;
    }

    private static List<Check> checks(String only) {
        var all = new ArrayList<Check>();
        Connecting.checks(group(all, "connecting"));
        Keys.checks(group(all, "keys"));
        Messages.checks(group(all, "messages"));
        Acknowledging.checks(group(all, "acknowledging"));
        Consuming.checks(group(all, "consuming"));
        Transactions.checks(group(all, "transactions"));
        Temporary.checks(group(all, "temporary"));
        Topics.checks(group(all, "topics"));
        return all.stream().filter(check -> only == null || check.name().contains(only)).toList();
    }

    private static Check.Group group(List<Check> all, String subject) {
        return (name, says, body) -> all.add(new Check("jms." + subject + "." + name, says, body));
    }

    private static List<Result> run(Cluster cluster, List<Check> checks) throws Exception {
        var pool = Executors.newFixedThreadPool(JOBS);
        var tasks = new ArrayList<Callable<Result>>();
        for (var check : checks) tasks.add(() -> run(cluster, check));
        var results = new ArrayList<Result>();
        for (var done : pool.invokeAll(tasks)) results.add(done.get());
        pool.shutdown();
        return results;
    }

    private static Result run(Cluster cluster, Check check) {
        var space = new Space(cluster, check.name());
        var body = new FutureTask<>(() -> {
            check.body().run(space);
            return check;
        });
        var thread = new Thread(body, check.name());
        thread.setDaemon(true);
        thread.start();
        Throwable failure = null;
        try {
            body.get(CHECK_MAX, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            failure = error.getCause();
        } catch (TimeoutException error) {
            failure = new AssertionError("the check does not end");
        } catch (InterruptedException error) {
            failure = error;
        }
        // One that hangs may do so in its connection; the process ends soon.
        if (body.isDone()) space.close();
        if (failure == null) return new Result(check, null, null);
        var trace = new StringWriter();
        failure.printStackTrace(new PrintWriter(trace));
        var told = failure instanceof AssertionError ? failure.getMessage() : failure.toString();
        var line = told.lines().findFirst().orElse(told);
        line = line.substring(0, Math.min(FAILURE_CHARS_MAX, line.length()));
        return new Result(check, line, trace.toString());
    }

    private static String json(List<Result> results) {
        var rows = new ArrayList<String>();
        for (var result : results) {
            rows.add("{\"name\":" + quoted(result.check.name()) + ",\"says\":"
                    + quoted(result.check.says()) + ",\"methods\":[],\"failure\":"
                    + (result.failure == null ? "null" : quoted(result.failure)) + "}");
        }
        return "{\"inventory\":[],\"checks\":[" + String.join(",", rows) + "]}";
    }

    /** As JSON writes it. */
    static String quoted(String text) {
        var out = new StringBuilder("\"");
        text.chars().forEach(c -> {
            if (c == '"' || c == '\\') out.append('\\').append((char) c);
            else if (c < ' ') out.append(String.format("\\u%04x", c));
            else out.append((char) c);
        });
        return out.append('"').toString();
    }
}
