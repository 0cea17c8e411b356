/** Owns the hints why a server cannot be reached: its URL has the wrong scheme, nothing listens there, or its name is unknown. */

const notTls = /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNEXPECTED_MESSAGE))$/;
/** How long the far end may take to show that it speaks TLS. */
const probeMs = 3_000;

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** Whether the far end answers a TLS handshake. Nothing is sent over the connection, so its certificate does not matter. */
async function speaksTls({ hostname, port }: URL): Promise<boolean> {
  const { connect } = await import('node:tls');
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[|\]$/g, '');
    const socket = connect({ host, port: Number(port || 80), rejectUnauthorized: false });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(probeMs, () => end(false));
    socket.once('secureConnect', () => end(true)).once('error', () => end(false));
  });
}

/** The failure of a request, or a clearer one with the same code. */
export async function withConnectionHint(url: string, error: unknown): Promise<unknown> {
  const { protocol, host, hostname } = new URL(url);
  const code = codeOf(error);
  const hint = (text: string): Error => Object.assign(new Error(text), { code });
  if (protocol === 'https:' && notTls.test(code)) return hint(`the server speaks HTTP, not HTTPS; use http://${host}`);
  if (protocol === 'http:' && code === 'ECONNRESET' && (await speaksTls(new URL(url))))
    return hint(`the server speaks HTTPS, not HTTP; use https://${host}`);
  if (code === 'ECONNREFUSED') return hint('connection refused (ECONNREFUSED); is the server running?');
  if (code === 'ENOTFOUND') return hint(`the name ${hostname} is not known (ENOTFOUND)`);
  return error;
}
