import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** A check of the SDK: a static method that takes a {@link Space}. */
@Retention(RetentionPolicy.RUNTIME)
@interface Check {
    /** What holds when the check passes. */
    String says();

    /** The methods it proves, by the names of the synchronous client, each of which it has to call. */
    String[] proves() default {};

    Flavour[] flavours() default {Flavour.SYNC, Flavour.ASYNC};
}
