/** Owns one exchange with an identity provider: bounded in time and size, never redirected, JSON or a failure. */

/** A provider's answers are small; a larger one is a mistake or an attack. */
const largestAnswer = 1 << 20;

export type Json = Readonly<Record<string, unknown>>;

export interface Answered {
  readonly status: number;
  /** The object in the body; empty where there is none. */
  readonly body: Json;
}

export interface Ask {
  readonly url: string;
  readonly fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;
  readonly form?: Readonly<Record<string, string>>;
  readonly authorization?: string | undefined;
}

async function bounded(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.byteLength;
    if (size > largestAnswer) throw new Error('the answer is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

export async function askProvider({ url, fetch, timeoutMs, form, authorization }: Ask): Promise<Answered> {
  const answer = await fetch(url, {
    headers: { accept: 'application/json', ...(authorization === undefined ? {} : { authorization }) },
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
    ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
  });
  const text = await bounded(answer);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const body = typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
  return { status: answer.status, body };
}

/** For what has to be there: anything but an object with a 200 is a failure. */
export async function getJson(ask: Omit<Ask, 'form'>): Promise<Json> {
  const { status, body } = await askProvider(ask);
  if (status !== 200) throw new Error(`${ask.url} answered ${status}`);
  if (Object.keys(body).length === 0) throw new Error(`${ask.url} answered no object`);
  return body;
}
