using System.Collections.Concurrent;
using System.Diagnostics;
using System.Reflection;
using System.Text.Json;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Conformance;

/// <summary>The checks, in areas, and what came of them.</summary>
sealed class Suite(Target target)
{
    const string Usage = """
        suite --amqp HOST:PORT --http HOST:PORT [more]

          --amqp, --http        plain AMQP; entity management and WebSockets
          --json FILE           the results are written there
          --only TEXT,TEXT      checks whose names contain one of these
          --jobs N              checks at a time (6)
          --mayfly PATH --grpc HOST:PORT
                                for checks that move the cluster's time
          --up PID --nodes HOST:PORT,HOST:PORT,HOST:PORT
                                the process of `mayfly up`, and each node's AMQP: runs failover/, which kills nodes

        From the environment, all of whose checks are left out where a variable is not set:

          MAYFLY_AMQPS          AMQP over TLS, and TLS on --http too; trust comes from SSL_CERT_FILE
          MAYFLY_SECURED_AMQPS, MAYFLY_SECURED_HTTP, MAYFLY_SECURED_KEY
                                a broker that asks for keys, over TLS, and its secret
          MAYFLY_SECURED_LISTENER
                                the key of its `listener`, which may only listen
        """;

    readonly List<(string Name, Func<Check, Task> Body, bool Alone)> checks = [];
    readonly ConcurrentBag<(string Name, string Outcome, string? Failure)> outcomes = [];

    public Target Target => target;
    public void Add(string name, Func<Check, Task> body) => checks.Add((name, body, false));
    /// <summary>A check that moves the cluster's time, and so runs when no other does.</summary>
    public void AddAlone(string name, Func<Check, Task> body) => checks.Add((name, body, true));

    public static async Task<int> Start(Arguments arguments)
    {
        if (arguments["amqp"] is not { } amqp || arguments["http"] is not { } http) return Arguments.Refuse(Usage);
        var target = new Target
        {
            Amqp = amqp,
            Http = http,
            Amqps = Environment.GetEnvironmentVariable("MAYFLY_AMQPS"),
            SecuredAmqps = Environment.GetEnvironmentVariable("MAYFLY_SECURED_AMQPS"),
            SecuredHttp = Environment.GetEnvironmentVariable("MAYFLY_SECURED_HTTP"),
            Secret = Environment.GetEnvironmentVariable("MAYFLY_SECURED_KEY") ?? "",
            ListenKey = Environment.GetEnvironmentVariable("MAYFLY_SECURED_LISTENER") ?? "",
            Mayfly = arguments["mayfly"],
            Grpc = arguments["grpc"],
            Up = arguments["up"] is { } up ? int.Parse(up) : null,
            Nodes = arguments["nodes"]?.Split(',') ?? [],
        };
        var suite = new Suite(target);
        Send.Register(suite);
        Receive.Register(suite);
        Sessions.Register(suite);
        Processor.Register(suite);
        SessionProcessor.Register(suite);
        Administration.Register(suite);
        Rules.Register(suite);
        Transactions.Register(suite);
        Lifetime.Register(suite);
        Transport.Register(suite);
        Diagnostics.Register(suite);
        if (target.Up is not null) Failover.Register(suite);
        var failed = await suite.Run(arguments["only"]?.Split(',') ?? [], int.Parse(arguments["jobs"] ?? "6"));
        if (arguments["json"] is { } file) await File.WriteAllTextAsync(file, suite.Json());
        return failed ? 1 : 0;
    }

    /// <summary>Whether any failed.</summary>
    async Task<bool> Run(string[] only, int jobs)
    {
        var admin = target.Admin();
        var wanted = checks.Where(c => only.Length == 0 || only.Any(text => c.Name.Contains(text))).ToList();
        await Parallel.ForEachAsync(wanted.Where(c => !c.Alone), new ParallelOptions { MaxDegreeOfParallelism = jobs },
            async (c, _) => await RunOne(c.Name, c.Body, admin));
        foreach (var c in wanted.Where(c => c.Alone))
            await RunOne(c.Name, c.Body, admin);

        int Count(string outcome) => outcomes.Count(o => o.Outcome == outcome);
        Console.WriteLine($".NET: {Count("ok")} of {outcomes.Count} checks passed, {Count("skip")} left out");
        return Count("FAIL") > 0;
    }

    async Task RunOne(string name, Func<Check, Task> body, ServiceBusAdministrationClient admin)
    {
        string outcome;
        string? failure = null;
        var check = new Check(name, target, admin);
        try
        {
            await body(check).WaitAsync(TimeSpan.FromSeconds(name.StartsWith("failover/") ? 580 : 120));
            outcome = "ok";
        }
        catch (SkipException skip) { (outcome, failure) = ("skip", skip.Message); }
        catch (Exception error) { (outcome, failure) = ("FAIL", Expect.Line(Describe(error))); }
        await check.DisposeAsync();
        outcomes.Add((name, outcome, failure));
        if (outcome != "ok") Console.WriteLine($"{outcome} {name}: {failure}");
    }

    static string Describe(Exception failure) =>
        failure.GetType() == typeof(Exception) ? failure.Message : Expect.Show(failure);

    /// <summary>As `run.py` reads it; what was left out is no result.</summary>
    string Json()
    {
        var proofs = Proofs();
        return JsonSerializer.Serialize(new
        {
            inventory = Inventory(),
            checks = outcomes.Where(o => o.Outcome != "skip").OrderBy(o => o.Name, StringComparer.Ordinal).Select(o => new
            {
                name = o.Name,
                says = o.Name[(o.Name.IndexOf('/') + 1)..].Replace('-', ' '),
                methods = proofs.Where(p => p.Value.Contains(o.Name)).Select(p => p.Key).ToArray(),
                failure = o.Failure,
            }).ToArray(),
        });
    }

    /// <summary>By method: the checks that prove it.</summary>
    static Dictionary<string, string[]> Proofs() =>
        File.ReadLines(Path.Combine(AppContext.BaseDirectory, "methods.txt"))
            .Where(line => line.Length > 0 && !line.StartsWith('#'))
            .Select(line => line.Split(": "))
            .ToDictionary(parts => parts[0], parts => parts[1].Split(' '));

    /// <summary>
    /// Every public method of the package but those that make models for a program's own tests, and those that all
    /// objects have.
    /// </summary>
    static string[] Inventory() =>
        typeof(ServiceBusClient).Assembly.GetExportedTypes()
            .Where(type => type != typeof(ServiceBusModelFactory) && type.Namespace!.StartsWith("Azure.Messaging.ServiceBus"))
            .SelectMany(type => type.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly)
                .Where(method => !method.IsSpecialName && method.Name is not ("Equals" or "GetHashCode" or "ToString"))
                .Select(method => $"{type.Name}.{method.Name}"))
            .Distinct().Order(StringComparer.Ordinal).ToArray();
}
