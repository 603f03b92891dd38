import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * Runs the checks of one of the two kinds of clients in `azure-messaging-servicebus`, unmodified, against a cluster.
 *
 * <pre>java -cp … Suite --flavour sync --amqp localhost:5700 --http localhost:5300</pre>
 */
final class Suite {
    private static final int CHECK_MAX = 120;
    private static final List<Class<?>> SUBJECTS = List.of(
        Administration.class, Building.class, Deferring.class, Faults.class, Processing.class, Receiving.class,
        Rules.class, Scheduling.class, Sending.class, Sessions.class, Settling.class, Topics.class, Transactions.class,
        Transports.class);

    private final Target target;
    private final Flavour flavour;
    private final Object administration;
    private final Set<String> used = ConcurrentHashMap.newKeySet();

    private Suite(Target target, Flavour flavour) {
        this.target = target;
        this.flavour = flavour;
        administration = Space.newAdministration(target, flavour);
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> options = options(args);
        Map<String, String> env = System.getenv();
        Target target = new Target(
            options.getOrDefault("amqp", "localhost:5700"), options.getOrDefault("http", "localhost:5300"),
            env.getOrDefault("MAYFLY_AMQPS", "localhost:5671"));
        Target.trust(Path.of(env.getOrDefault("MAYFLY_AUTHORITY", "mayfly-data/tls/authority.pem")));
        Flavour flavour = Flavour.valueOf(options.getOrDefault("flavour", "sync").toUpperCase());
        Suite suite = new Suite(target, flavour);
        String only = options.get("only");
        List<Map<String, Object>> results =
            suite.run(only == null ? "" : only, Integer.parseInt(options.getOrDefault("jobs", "12")));
        if (only == null) results.add(suite.overloads());
        List<Map<String, Object>> failed = results.stream().filter(result -> result.get("failure") != null).toList();
        for (Map<String, Object> result : only == null ? List.<Map<String, Object>>of() : failed) {
            System.out.printf("%s%n%s %s: %s%n%n", result.get("trace"), flavour, result.get("name"),
                result.get("failure"));
        }
        System.out.printf("Java %s: %d of %d checks passed%n", flavour.name().toLowerCase(),
            results.size() - failed.size(), results.size());
        if (options.containsKey("json")) {
            Map<String, Object> document = Map.of("inventory", suite.inventory(), "checks", results);
            new ObjectMapper().writeValue(Path.of(options.get("json")).toFile(), document);
        }
        System.exit(failed.isEmpty() && !results.isEmpty() ? 0 : 1);
    }

    /** `--name value` each. */
    static Map<String, String> options(String[] args) {
        Map<String, String> options = new HashMap<>();
        for (int n = 0; n < args.length; n++) {
            boolean alone = n + 1 == args.length || args[n + 1].startsWith("--");
            options.put(args[n].substring(2), alone ? "" : args[++n]);
        }
        return options;
    }

    /** Every public method, as `Class.name`. */
    private List<String> inventory() {
        return flavour.methods()
            .map(method -> method.getDeclaringClass().getSimpleName() + "." + method.getName())
            .distinct().sorted().toList();
    }

    private List<Map<String, Object>> run(String only, int jobs) throws InterruptedException {
        ExecutorService threads = Executors.newFixedThreadPool(jobs);
        // Of what a check that hangs does nothing is waited for.
        ExecutorService works = Executors.newCachedThreadPool();
        List<Map<String, Object>> results = new ArrayList<>();
        List<Future<Map<String, Object>>> running = new ArrayList<>();
        for (Class<?> subject : SUBJECTS) {
            Arrays.stream(subject.getDeclaredMethods())
                .filter(method -> method.isAnnotationPresent(Check.class))
                .filter(method -> List.of(method.getAnnotation(Check.class).flavours()).contains(flavour))
                .filter(method -> name(method).contains(only))
                .sorted(Comparator.comparing(Method::getName))
                .forEach(method -> running.add(threads.submit(() -> check(method, works))));
        }
        for (Future<Map<String, Object>> future : running) {
            try {
                results.add(future.get());
            } catch (java.util.concurrent.ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }
        threads.shutdown();
        return results;
    }

    private static String name(Method method) {
        return method.getDeclaringClass().getSimpleName().toLowerCase() + "." + method.getName();
    }

    private Map<String, Object> check(Method method, ExecutorService works) {
        Check check = method.getAnnotation(Check.class);
        Set<String> proved = Arrays.stream(check.proves()).map(flavour::own).collect(Collectors.toSet());
        long started = System.nanoTime();
        Future<?> work = works.submit(() -> {
            try (Space space = new Space(target, flavour, name(method), administration)) {
                try {
                    method.invoke(null, space);
                } finally {
                    used.addAll(space.used);
                }
                Set<String> called =
                    space.used.stream().map(one -> one.replaceFirst("\\(.*", "")).collect(Collectors.toSet());
                Set<String> skipped = new TreeSet<>(proved);
                skipped.removeAll(called);
                Space.equal(skipped, Set.of(), "methods that the check does not call");
            }
            return null;
        });
        Throwable failure = null;
        try {
            work.get(CHECK_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            work.cancel(true);
            failure = new TimeoutException("not done after " + CHECK_MAX + " s");
        } catch (Exception error) {
            failure = error.getCause();
            if (failure instanceof InvocationTargetException) failure = failure.getCause();
        }
        return result(name(method), check.says(), proved, failure, (System.nanoTime() - started) / 1e9);
    }

    private static Map<String, Object> result(
        String name, String says, Set<String> methods, Throwable failure, double seconds) {
        Map<String, Object> result = new LinkedHashMap<>();
        StringWriter trace = new StringWriter();
        String told = null;
        if (failure != null) {
            failure.printStackTrace(new PrintWriter(trace, true));
            told = failure.toString().lines().findFirst().orElse("").replace('|', '/');
            told = told.substring(0, Math.min(told.length(), 240));
        }
        result.put("name", name);
        result.put("says", says);
        result.put("methods", methods);
        result.put("failure", told);
        result.put("trace", trace.toString());
        result.put("seconds", Math.round(seconds * 10) / 10.0);
        return result;
    }

    /** METHODS.md knows methods by name; of each name, every signature has to be called. */
    private Map<String, Object> overloads() {
        Set<String> missing = flavour.methods().map(Handle::signature).collect(Collectors.toCollection(TreeSet::new));
        missing.removeAll(used);
        AssertionError failure = missing.isEmpty() ? null : new AssertionError("not called: " + missing);
        // What a builder was told, the checks of what it built have proved.
        Set<String> building = inventory().stream()
            .filter(method -> method.contains("Builder.") && !method.startsWith("ServiceBusClientBuilder."))
            .filter(method -> !method.startsWith("ServiceBusAdministrationClientBuilder.")).collect(Collectors.toSet());
        return result("suite.overloads", "Every signature of every public method is called.", building, failure, 0);
    }
}
