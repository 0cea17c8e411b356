/** Owns the hint at a URL whose scheme is not what the server speaks: HTTPS against an HTTP server, or the other way round. */

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

/** The failure of a request, or a clearer one where the scheme of the URL is the reason. */
export async function withSchemeHint(url: string, error: unknown): Promise<unknown> {
  const parsed = new URL(url);
  const code = codeOf(error);
  if (parsed.protocol === 'https:' && notTls.test(code))
    return new Error(`the server speaks HTTP, not HTTPS; use http://${parsed.host}`);
  if (parsed.protocol === 'http:' && code === 'ECONNRESET' && (await speaksTls(parsed)))
    return new Error(`the server speaks HTTPS, not HTTP; use https://${parsed.host}`);
  return error;
}
