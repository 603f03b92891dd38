// Programs that use Azure.Messaging.ServiceBus as its documentation says:
//
//   suite       the checks: every public method, as its documentation says it behaves
//   failover    a worker that sends and receives while nodes die (../failover.py)
//   by_string   the thinnest programs, told nothing but a connection string (../strings.py)
//
// The first two name their arguments when they are called without them. The exit code is 2 if they are wrong.
using Conformance;

var rest = args.Skip(1).ToArray();
return args.FirstOrDefault() switch
{
    "suite" => await Suite.Start(Arguments.Of(rest)),
    "failover" => await Worker.Start(Arguments.Of(rest)),
    "by_string" when rest.Length > 0 => await ByString.Start(rest[0], rest[1..]),
    _ => Arguments.Refuse("usage: suite …, failover …, or by_string QUEUE PART…"),
};
