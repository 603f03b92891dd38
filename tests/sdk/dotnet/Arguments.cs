namespace Conformance;

/// <summary>`--name value`, and `--name` alone for what is yes or no.</summary>
sealed class Arguments
{
    readonly Dictionary<string, string> values = [];

    public static Arguments Of(string[] args)
    {
        var arguments = new Arguments();
        for (var i = 0; i < args.Length; i++)
        {
            var isAlone = i + 1 == args.Length || args[i + 1].StartsWith("--");
            arguments.values[args[i]] = isAlone ? "" : args[i + 1];
            if (!isAlone) i++;
        }
        return arguments;
    }

    public string? this[string name] => values.GetValueOrDefault("--" + name);

    public static int Refuse(string usage)
    {
        Console.Error.WriteLine(usage);
        return 2;
    }
}
