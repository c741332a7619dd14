// WebSockets that carry the relay's protocol, as bytes without message boundaries.

/** The name of the subprotocol, and of the upgrade without a WebSocket. */
export const RELAY_SUBPROTOCOL = 'derp';
/**
 * The longest message to send: the public Go client reads no longer ones, and closes the connection with 1009
 * (github.com/coder/websocket, whose default it keeps).
 */
export const MAX_MESSAGE_BYTES = 32 * 1024;
