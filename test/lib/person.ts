/** Owns a person at a browser, as far as signing in needs one: keeps cookies, follows redirects, fills in the provider's forms. */

/** Where a person ends up. */
export interface Arrived {
  readonly url: string;
  readonly status: number;
  readonly text: string;
}

const unescape = (text: string): string =>
  text.replaceAll('&amp;', '&').replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<');

const attribute = (tag: string, name: string): string | undefined => {
  const value = new RegExp(`\\b${name}="([^"]*)"`).exec(tag)?.[1];
  return value === undefined ? undefined : unescape(value);
};

const most = 25;

export class Person {
  readonly login: string;
  /** As a browser does, cookies are kept by host: ports do not tell servers apart. */
  readonly cookies = new Map<string, string>();
  /** Every address that was visited. */
  readonly visited: string[] = [];

  constructor(login: string) {
    this.login = login;
  }

  /** One request, without following anything. */
  async go(url: string, form?: Readonly<Record<string, string>>): Promise<Response> {
    this.visited.push(url);
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: this.cookieHeader },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ''] = line.split(';');
      const at = pair.indexOf('=');
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
      if (value === '' || /max-age=0\b/i.test(line)) this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return answer;
  }

  get cookieHeader(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  /**
   * Goes there and on, signing in and agreeing where asked, until a page without a form, one that shows `enough`, or an address that
   * begins with `stop`.
   */
  async follow(
    start: string,
    { stop, enough, answers = {} }: { stop?: string; enough?: RegExp; answers?: Record<string, string> } = {},
  ): Promise<Arrived> {
    let at = start;
    let form: Record<string, string> | undefined;
    for (let step = 0; step < most; step += 1) {
      if (stop !== undefined && at.startsWith(stop)) return { url: at, status: 0, text: '' };
      const answer = await this.go(at, form);
      form = undefined;
      const next = answer.headers.get('location');
      const text = await answer.text();
      if (next !== null) {
        at = new URL(next, at).href;
        continue;
      }
      const opening = /<form\b[^>]*>/.exec(text)?.[0];
      if (opening === undefined || answer.status >= 400 || enough?.test(text) === true)
        return { url: at, status: answer.status, text };
      const action = attribute(opening, 'action') ?? at;
      const inputs = [...text.matchAll(/<input\b[^>]*>/g)].map(([tag]) => tag);
      form = { ...Object.fromEntries(inputs.flatMap((tag) => this.#fill(tag))), ...answers };
      at = new URL(action, at).href;
    }
    throw new Error(`the way never ends: ${this.visited.slice(-most).join(' → ')}`);
  }

  #fill(tag: string): readonly [string, string][] {
    const name = attribute(tag, 'name');
    if (name === undefined) return [];
    if (name === 'login') return [[name, this.login]];
    if (name === 'password') return [[name, 'any']];
    return [[name, attribute(tag, 'value') ?? '']];
  }
}
