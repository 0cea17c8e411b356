/** Owns one HTTP exchange with an identity provider: only to safe URLs, bounded in time and size, without redirects. */
import { isSafeUrl } from './safe-url.ts';

export type Fetch = typeof globalThis.fetch;

interface ProviderRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: URLSearchParams | undefined;
  /** Ends the exchange before its time. */
  readonly signal?: AbortSignal | undefined;
}

/** As the OAuth library asks. */
export type ProviderFetch = (url: string, request: ProviderRequest) => Promise<Response>;

/** A provider's answers are small; a larger one is a mistake or an attack. */
const largestAnswer = 1 << 20;

async function readBounded(answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.byteLength;
    if (size > largestAnswer) throw new Error('the answer is too large');
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/** A `fetch` for providers: whatever asks through it cannot leave these bounds. The answer has arrived whole when it resolves. */
export function providerFetch(fetch: Fetch, timeoutMs: number): ProviderFetch {
  return async (url, { method = 'GET', headers = {}, body, signal }) => {
    if (!isSafeUrl(url)) throw new Error(`${url} is no safe address of an identity provider`);
    const answer = await fetch(url, {
      method,
      headers,
      redirect: 'error',
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])]),
      ...(body === undefined ? {} : { body }),
    });
    const bytes = await readBounded(answer);
    // These statuses have no body by definition, and a Response would refuse one.
    const bodiless = [101, 204, 205, 304].includes(answer.status);
    return new Response(bodiless ? null : bytes, { status: answer.status, headers: answer.headers });
  };
}
