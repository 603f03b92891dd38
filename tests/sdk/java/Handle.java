import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Stands between a face and an object of the SDK. */
final class Handle implements InvocationHandler {
    /** Longer than any of the SDK's own waits. */
    private static final Duration ANSWER_MAX = Duration.ofSeconds(100);
    private static final Map<Class<?>, Class<?>> PRIMITIVES =
        Map.of(int.class, Integer.class, long.class, Long.class, boolean.class, Boolean.class);
    /** What the asynchronous client calls otherwise. */
    private static final Map<String, String> RENAMED = Map.of("receiveDeferredMessageBatch", "receiveDeferredMessages");

    private final Object thing;
    private final Set<String> used;
    private Inbox inbox;

    private Handle(Object thing, Set<String> used) {
        this.thing = thing;
        this.used = used;
    }

    /** The thing by its face; the signature of every method called is added to {@code used}. */
    static <T> T of(Class<T> face, Object thing, Set<String> used) {
        return face.cast(
            Proxy.newProxyInstance(face.getClassLoader(), new Class<?>[] {face}, new Handle(thing, used)));
    }

    static String signature(Method method) {
        String parameters =
            Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName).collect(Collectors.joining(","));
        return "%s.%s(%s)".formatted(method.getDeclaringClass().getSimpleName(), method.getName(), parameters);
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
        if (method.getDeclaringClass() == Object.class) return method.invoke(thing, given);
        List<Object> arguments = new ArrayList<>();
        for (Object argument : given == null ? new Object[0] : given) arguments.add(bare(argument));
        Object result;
        boolean isStream = thing instanceof ServiceBusReceiverAsyncClient && method.getName().equals("receiveMessages");
        if (isStream && arguments.size() == 2) {
            used.add("ServiceBusReceiverAsyncClient.receiveMessages()");
            if (inbox == null) inbox = new Inbox((ServiceBusReceiverAsyncClient) thing);
            result = inbox.take((int) arguments.get(0), (Duration) arguments.get(1));
        } else {
            Method own = find(method.getName(), arguments);
            used.add(signature(own));
            try {
                result = own.invoke(thing, arguments.toArray());
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        }
        return method.getReturnType() == Flux.class ? result : wrap(proxy, method.getReturnType(), waited(result));
    }

    /** The SDK's own object, if there is one behind it. */
    static Object bare(Object argument) {
        boolean isHandle = argument != null
            && Proxy.isProxyClass(argument.getClass())
            && Proxy.getInvocationHandler(argument) instanceof Handle;
        return isHandle ? ((Handle) Proxy.getInvocationHandler(argument)).thing : argument;
    }

    /** The SDK's method; arguments that it does not take are left away from the end. */
    private Method find(String name, List<Object> arguments) throws NoSuchMethodException {
        for (String known : List.of(name, RENAMED.getOrDefault(name, name))) {
            for (Method method : thing.getClass().getMethods()) {
                if (!method.isBridge() && method.getName().equals(known) && takes(method, arguments)) return method;
            }
        }
        if (arguments.isEmpty()) throw new NoSuchMethodException(thing.getClass().getSimpleName() + "." + name);
        arguments.remove(arguments.size() - 1);
        return find(name, arguments);
    }

    private static boolean takes(Method method, List<Object> arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.size() || !Modifier.isPublic(method.getModifiers())) return false;
        for (int n = 0; n < types.length; n++) {
            Class<?> type = PRIMITIVES.getOrDefault(types[n], types[n]);
            if (arguments.get(n) != null && !type.isInstance(arguments.get(n))) return false;
        }
        return true;
    }

    private static Object waited(Object result) {
        if (result instanceof Mono<?> mono) return mono.block(ANSWER_MAX);
        if (result instanceof Flux<?> flux) return flux.collectList().block(ANSWER_MAX);
        return result;
    }

    private Object wrap(Object proxy, Class<?> wanted, Object result) {
        if (result == thing) return proxy;
        if (wanted.getEnclosingClass() == Faces.class) return of(wanted, result, used);
        if (wanted == List.class && result instanceof Iterable<?> items && !(result instanceof List<?>)) {
            List<Object> list = new ArrayList<>();
            items.forEach(list::add);
            return list;
        }
        return result;
    }
}
