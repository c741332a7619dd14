import type { FastifyReply, FastifyRequest } from 'fastify';

/** The path of requests without a route: theirs can be anything. */
const UNKNOWN = 'UNKNOWN';
/** The client disconnected before the answer. */
const CLIENT_CLOSED = '499';

/**
 * The pattern of a request's route in upstream's form, `/api/v2/users/{user}`. Never the request's own path, which may
 * contain keys.
 */
export function routePattern(request: FastifyRequest): string {
  const pattern = request.is404 ? undefined : request.routeOptions.url;
  // the dashboard's page is the answer at any path
  return pattern === undefined || pattern === '/*' ? UNKNOWN : pattern.replaceAll(/:(\w+)/g, '{$1}');
}

/** Whether the client asks for a WebSocket. */
export function isUpgrade(request: FastifyRequest): boolean {
  return (request.raw as { upgrade?: boolean }).upgrade === true;
}

/** Calls `over` once: with the status code of the answer, or without one when a WebSocket has closed. */
export function whenOver(request: FastifyRequest, reply: FastifyReply, over: (code: string | undefined) => void): void {
  const upgrade = isUpgrade(request);
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    if (upgrade && !reply.raw.headersSent) over(undefined);
    else over(reply.raw.writableFinished ? String(reply.raw.statusCode) : CLIENT_CLOSED);
  };
  if (upgrade) {
    // A rejected upgrade has an answer. Otherwise the WebSocket uses the connection.
    reply.raw.once('finish', end);
    request.raw.socket.once('close', end);
  } else {
    reply.raw.once('close', end);
  }
}
