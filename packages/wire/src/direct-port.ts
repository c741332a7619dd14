/**
 * The port of our agents in the tailnet on which sessions of tunnels continue. Upstream's agents reserve the ports below 9 and
 * serve 1 to 4.
 */
export const DIRECT_PORT = 6;
