/**
 * Owns the way to Node's HTTP. An `import` of it touches all that it exports, and from Node 22 on that loads the whole of fetch for the sake of
 * `WebSocket`: 14 MB of memory and half of an agent's start.
 */
export const { Agent, createServer, maxHeaderSize, request } = process.getBuiltinModule('node:http');
