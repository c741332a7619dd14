import { Counter, Gauge, type Registry } from 'prom-client';

/** The figures of the tailnet's parts on this server. */
export interface TailnetFigures {
  relay: {
    connections: number;
    clients: number;
    duplicates: number;
    homes: number;
    queuedPackets: number;
    queuedBytes: number;
    strangers: number;
    accepted: number;
    packetsReceived: number;
    bytesReceived: number;
    packetsForwarded: number;
    bytesForwarded: number;
    packetsToRelays: number;
    packetsFromRelays: number;
    remoteClients: number;
    dropped: Readonly<Record<string, number>>;
  };
  coordinator: { peers: number; tunnels: number };
}

/** Adds the metrics of the relay, by upstream's names, and of the coordinator. `read`: undefined before their first use. */
export function createTailnetMetrics(registry: Registry, read: () => TailnetFigures | undefined): void {
  const gauge = (name: string, help: string, value: (figures: TailnetFigures) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const figures = read();
        this.set(figures ? value(figures) : 0);
      },
    });
  const counter = (name: string, help: string, value: (figures: TailnetFigures) => number) =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        const figures = read();
        this.inc(figures ? value(figures) : 0);
      },
    });
  gauge('coder_derp_server_connections', 'Open connections to the relay.', ({ relay }) => relay.connections);
  gauge(
    'coder_derp_server_clients',
    'Clients of the relays of all servers, by their keys.',
    ({ relay }) => relay.clients + relay.remoteClients,
  );
  gauge('coder_derp_server_clients_local', 'Clients that are connected to this server.', ({ relay }) => relay.clients);
  gauge(
    'coder_derp_server_clients_remote',
    'Clients that are connected to other servers.',
    ({ relay }) => relay.remoteClients,
  );
  gauge('coder_derp_server_home_connections', 'Clients whose home is this relay.', ({ relay }) => relay.homes);
  gauge(
    'coderd_derp_strangers',
    'Connections whose keys the coordinator does not know.',
    ({ relay }) => relay.strangers,
  );
  gauge('coderd_derp_queued_bytes', 'Bytes that wait for slow clients of the relay.', ({ relay }) => relay.queuedBytes);
  counter('coder_derp_server_accepts_total', 'Accepted connections to the relay.', ({ relay }) => relay.accepted);
  counter('coder_derp_server_packets_received_total', 'Packets from clients.', ({ relay }) => relay.packetsReceived);
  counter(
    'coder_derp_server_bytes_received_total',
    'Bytes of packets from clients.',
    ({ relay }) => relay.bytesReceived,
  );
  counter('coder_derp_server_packets_sent_total', 'Packets to clients.', ({ relay }) => relay.packetsForwarded);
  counter('coder_derp_server_bytes_sent_total', 'Bytes of packets to clients.', ({ relay }) => relay.bytesForwarded);
  counter(
    'coder_derp_server_packets_forwarded_out_total',
    'Packets to the relays of other servers.',
    ({ relay }) => relay.packetsToRelays,
  );
  counter(
    'coder_derp_server_packets_forwarded_in_total',
    'Packets from the relays of other servers.',
    ({ relay }) => relay.packetsFromRelays,
  );
  const sum = (dropped: Readonly<Record<string, number>>) => Object.values(dropped).reduce((all, one) => all + one, 0);
  counter('coder_derp_server_packets_dropped_total', 'Packets that no client received.', ({ relay }) =>
    sum(relay.dropped),
  );
  new Counter({
    name: 'coder_derp_server_packets_dropped_reason_total',
    help: 'Packets that no client received, by reason: absent, denied, budget or full.',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(read()?.relay.dropped ?? {})) this.inc({ reason }, count);
    },
  });
  gauge(
    'coderd_tailnet_peers',
    'Clients and agents that this server coordinates.',
    ({ coordinator }) => coordinator.peers,
  );
  gauge('coderd_tailnet_tunnels', 'Tunnels that this server coordinates.', ({ coordinator }) => coordinator.tunnels);
}
