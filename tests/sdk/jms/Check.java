/** A thing that a program of JMS does, and what is to come of it. */
record Check(String name, String says, Body body) {
    @FunctionalInterface
    interface Body {
        void run(Space space) throws Exception;
    }

    /** The checks of one subject. */
    interface Group {
        void add(String name, String says, Body body);
    }
}
