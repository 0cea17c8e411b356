/** Owns who sees a request first: the way of one operation, then the framework. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

/**
 * Shows `takes` every request of the server before the framework, which gets those that it leaves. Further servers that the framework
 * opens by itself, as for both addresses of `localhost`, show theirs to the framework alone.
 */
export function answerBefore(
  server: Server,
  takes: (request: IncomingMessage, response: ServerResponse) => boolean,
): void {
  const framework = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[];
  server.removeAllListeners('request');
  server.on('request', (request, response) => {
    if (!takes(request, response)) for (const listener of framework) listener.call(server, request, response);
  });
}
