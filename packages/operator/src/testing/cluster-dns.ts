// Plays the name service and the network of a cluster: a Service's name is this machine. Imported by a test, or by a
// process with --import. Each "pod" listens on the port of its Service.
const dns = process.getBuiltinModule('node:dns') as { lookup: (...args: unknown[]) => void };
const { lookup } = dns;

dns.lookup = (host, ...rest) =>
  lookup(typeof host === 'string' && host.endsWith('.svc.cluster.local') ? '127.0.0.1' : host, ...rest);
