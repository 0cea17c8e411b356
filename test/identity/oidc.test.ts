/** Access tokens against a real identity provider: which are good, which are not, and what happens while it changes its keys or is away. */
import { base64url, decodeJwt, decodeProtectedHeader, importJWK, SignJWT, type JWK } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tokenVerifier, type OidcOptions } from '../../src/server/identity/oidc.ts';
import { audience, startProvider, type TestProvider } from '../lib/provider.ts';

let provider: TestProvider;
let accessToken: string;
let idToken: string;
beforeAll(async () => {
  provider = await startProvider();
  ({ accessToken, idToken } = await provider.signIn('alice'));
});
afterAll(() => provider?.stop());

const verifier = (more: Partial<OidcOptions> = {}) =>
  tokenVerifier({
    issuers: [provider.issuer],
    audiences: [audience],
    usernameClaim: 'preferred_username',
    toleranceSeconds: 30,
    clock: Date.now,
    ...more,
  });

interface Forgery {
  readonly key?: JWK;
  readonly alg?: string;
  readonly kid?: string | undefined;
  readonly typ?: string;
}

/** Signs what the provider never would, with the provider's own key unless another is given. */
async function forge(
  claims: Readonly<Record<string, unknown>>,
  { key = provider.key(), alg = 'ES256', kid = key.kid, typ }: Forgery = {},
): Promise<string> {
  const whole = { ...decodeJwt(accessToken), ...claims };
  const present = Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== undefined));
  return new SignJWT(present)
    .setProtectedHeader({ alg, ...(typ === undefined ? {} : { typ }), ...(kid === undefined ? {} : { kid }) })
    .sign(await importJWK(key, alg));
}

const seconds = (fromNow: number): number => Math.floor(Date.now() / 1000) + fromNow;

describe('an access token of the provider', () => {
  it('says who signed in and until when', async () => {
    const { exp = 0 } = decodeJwt(accessToken);
    expect(await verifier()(accessToken)).toEqual({
      kind: 'verified',
      issuer: provider.issuer,
      subject: 'alice',
      username: 'alice@example.org',
      proven: { name: 'alice@example.org' },
      expiresAt: (exp + 30) * 1000,
    });
  });

  it('names the user by the claim that the operator chose, or by the subject', async () => {
    const token = await forge({ nickname: '  al\u0000ice\n' });
    expect(await verifier({ usernameClaim: 'nickname' })(token)).toMatchObject({ username: 'alice' });
    expect(await verifier({ usernameClaim: 'absent' })(token)).toMatchObject({ username: 'alice', subject: 'alice' });
    expect(await verifier({ usernameClaim: 'nickname' })(await forge({ nickname: 'x'.repeat(999) }))).toMatchObject({
      username: 'x'.repeat(250),
    });
  });

  it('is accepted a little beyond its time, as clocks differ, and no further', async () => {
    const { exp = 0 } = decodeJwt(accessToken);
    expect(await verifier({ clock: () => (exp + 29) * 1000 })(accessToken)).toMatchObject({ kind: 'verified' });
    expect(await verifier({ clock: () => (exp + 31) * 1000 })(accessToken)).toEqual({
      kind: 'rejected',
      why: 'The access token has expired.',
    });
  });
});

describe('refused is', () => {
  const why = async (token: string): Promise<unknown> => {
    const answer = await verifier()(token);
    return answer.kind === 'rejected' ? answer.why : answer;
  };

  it('a token for another audience', async () => {
    expect(await why(await forge({ aud: 'urn:somebody:else' }))).toBe(
      'The access token is meant for another audience.',
    );
    expect(await why(await forge({ aud: undefined }))).toBe('The access token is meant for another audience.');
  });

  it('a token of another issuer, whoever signed it', async () => {
    const another = 'The access token comes from an issuer that this server does not accept.';
    expect(await why(await forge({ iss: 'https://elsewhere.example' }))).toBe(another);
    expect(await why(await forge({ iss: `${provider.issuer}/` }))).toBe(another);
    expect(await why(await forge({ iss: undefined }))).toBe(another);
  });

  it('a token of one accepted issuer that is signed by the other', async () => {
    const other = await startProvider();
    try {
      const both = verifier({ issuers: [provider.issuer, other.issuer] });
      expect(await both(await forge({ iss: other.issuer }))).toEqual({
        kind: 'rejected',
        why: 'The access token is signed with a key that its issuer does not publish.',
      });
      expect(await both((await other.signIn('bob')).accessToken)).toMatchObject({ issuer: other.issuer });
    } finally {
      await other.stop();
    }
  });

  it('an expired token, one that is not valid yet, and one that never ends', async () => {
    expect(await why(await forge({ exp: seconds(-60) }))).toBe('The access token has expired.');
    expect(await why(await forge({ nbf: seconds(60) }))).toBe('The access token is not valid yet.');
    expect(await why(await forge({ exp: undefined }))).toBe(
      'The claim `exp` of the access token is missing or invalid.',
    );
  });

  it('a token that was issued in the future, by more than clocks may differ', async () => {
    expect(await why(await forge({ iat: seconds(3_600) }))).toBe('The access token was issued in the future.');
    expect(await why(await forge({ iat: seconds(20) }))).toMatchObject({ kind: 'verified' });
  });

  it.each([undefined, '', 'x'.repeat(256), 5, ['alice'], { is: 'alice' }, 'a\ud800', 'a\u0000', 'a\nb'])(
    'a token without a subject that tells one person from every other: %j',
    async (sub) => {
      expect(await why(await forge({ sub }))).toBe('The claim `sub` of the access token is missing or invalid.');
    },
  );

  it('a token that ends at a time which nobody can write', async () => {
    const invalid = 'The claim `exp` of the access token is missing or invalid.';
    for (const exp of [9e15, 8.64e12, 253_402_300_800, '9'])
      expect(await why(await forge({ exp })), String(exp)).toBe(invalid);
    expect(await verifier({ toleranceSeconds: 0 })(await forge({ exp: 253_402_300_799 }))).toMatchObject({
      expiresAt: Date.parse('9999-12-31T23:59:59Z'),
    });
  });

  it('a token without a signature: alg none', async () => {
    const header = base64url.encode(JSON.stringify({ alg: 'none', kid: provider.key().kid }));
    const unsigned = `${header}.${accessToken.split('.')[1]}.`;
    expect(await why(unsigned)).toBe('The access token is signed with an algorithm that the server does not accept.');
    expect(await why(`${header}.${accessToken.split('.')[1]}.AAAA`)).toBe(
      'The access token is signed with an algorithm that the server does not accept.',
    );
  });

  it('a token signed with the public key as a shared secret', async () => {
    const { x = '' } = provider.key();
    const forged = await forge(
      {},
      { key: { kty: 'oct', k: x.padEnd(43, 'A') }, alg: 'HS256', kid: provider.key().kid },
    );
    expect(await why(forged)).toBe('The access token is signed with an algorithm that the server does not accept.');
  });

  it('a token whose words or signature were changed', async () => {
    const [header, , signature] = accessToken.split('.');
    const words = base64url.encode(JSON.stringify({ ...decodeJwt(accessToken), sub: 'admin' }));
    expect(await why(`${header}.${words}.${signature}`)).toBe('The signature of the access token is invalid.');
    expect(await why(`${accessToken.slice(0, -6)}AAAAAA`)).toBe('The signature of the access token is invalid.');
  });

  it('an ID token: it says who signed in somewhere, and opens nothing here', async () => {
    const verify = verifier({ audiences: ['tests'] });
    expect(decodeJwt(idToken).aud).toBe('tests');
    expect(await verify(idToken)).toEqual({ kind: 'rejected', why: 'This is not an access token.' });
  });

  it('everything else that providers sign, told by its type or by what stands in it', async () => {
    const bare = { scope: undefined, client_id: undefined };
    const rows: readonly [Readonly<Record<string, unknown>>, string | undefined, 'verified' | 'rejected'][] = [
      [{ ...bare }, 'at+jwt', 'verified'],
      [{ ...bare }, 'application/at+JWT', 'verified'],
      [{ ...bare }, 'JWT', 'rejected'],
      [{ ...bare }, undefined, 'rejected'],
      [{ ...bare, scp: ['read'] }, 'JWT', 'verified'],
      [{ ...bare, cid: 'app' }, undefined, 'verified'],
      [{ ...bare, scope: 'openid', typ: 'Bearer' }, 'JWT', 'verified'],
      [{ ...bare, scope: 'openid', typ: 'Refresh' }, 'JWT', 'rejected'],
      [{ ...bare, typ: 'ID' }, 'JWT', 'rejected'],
      [{ client_id: 'app', nonce: 'n' }, 'JWT', 'rejected'],
      [{ client_id: 'app', events: {} }, 'logout+jwt', 'rejected'],
    ];
    for (const [claims, typ, kind] of rows) {
      const token = await forge(claims, typ === undefined ? {} : { typ });
      expect(await verifier()(token), JSON.stringify([claims, typ])).toMatchObject({ kind });
    }
  });

  it('less where the operator named no audience: a token may be plain, but no ID token, and for nobody else', async () => {
    const bare = { scope: undefined, client_id: undefined };
    const rows: readonly [Readonly<Record<string, unknown>>, string | undefined, 'verified' | 'rejected'][] = [
      [bare, 'JWT', 'verified'],
      [bare, undefined, 'verified'],
      [{ ...bare, aud: undefined }, undefined, 'rejected'],
      [{ aud: undefined }, 'at+jwt', 'rejected'],
      [{ ...bare, aud: 'urn:somebody:else' }, undefined, 'rejected'],
      [bare, 'logout+jwt', 'rejected'],
      [{ ...bare, auth_time: 5 }, 'JWT', 'rejected'],
      [{ ...bare, nonce: 'n' }, 'JWT', 'rejected'],
      [{ ...bare, exp: undefined }, 'JWT', 'rejected'],
    ];
    for (const [claims, typ, kind] of rows) {
      const token = await forge(claims, typ === undefined ? {} : { typ });
      expect(await verifier({ plain: true })(token), JSON.stringify([claims, typ])).toMatchObject({ kind });
    }
  });

  it('what cannot be read, without a word of it in the answer', async () => {
    for (const token of ['eyJ.eyJ.', 'eyJhbGciOiJFUzI1NiJ9.bm90anNvbg.AAAA', `${accessToken}.x`]) {
      const answer = await verifier()(token);
      expect(answer.kind).toBe('rejected');
      expect(JSON.stringify(answer)).not.toContain(token);
    }
  });
});

describe('keys', () => {
  it('are fetched once for many tokens, and anew when a token names one that is unknown', async () => {
    const own = await startProvider();
    try {
      let now = Date.now();
      const verify = verifier({ issuers: [own.issuer], clock: () => now });
      const before = (await own.signIn('alice')).accessToken;
      await Promise.all(Array.from({ length: 20 }, () => verify(before)));
      expect(own.keysFetched()).toBe(1);
      const { kid } = decodeProtectedHeader(before);
      await own.rotate();
      const after = (await own.signIn('alice')).accessToken;
      expect(decodeProtectedHeader(after).kid).not.toBe(kid);
      // Within the pause no token causes another request: otherwise forged key ids would make us flood the provider.
      expect(await verify(after)).toMatchObject({ kind: 'rejected' });
      expect(own.keysFetched()).toBe(1);
      now += 10_000;
      expect(await verify(after)).toMatchObject({ kind: 'verified' });
      expect(await verify(before)).toMatchObject({ kind: 'verified' });
      expect(own.keysFetched()).toBe(2);
    } finally {
      await own.stop();
    }
  });

  it('that the provider withdrew stop being accepted', async () => {
    const own = await startProvider();
    try {
      let now = Date.now();
      const verify = verifier({ issuers: [own.issuer], clock: () => now });
      const before = (await own.signIn('alice')).accessToken;
      expect(await verify(before)).toMatchObject({ kind: 'verified' });
      await own.rotate({ forget: true });
      now += 600_001 - 300_000;
      expect(await verify(before)).toMatchObject({ kind: 'verified' });
      now += 300_000;
      expect(await verify(await forgeFresh(before, own, now))).toMatchObject({ kind: 'verified' });
      expect(await verify(before)).toEqual({
        kind: 'rejected',
        why: 'The access token is signed with a key that its issuer does not publish.',
      });
    } finally {
      await own.stop();
    }
  });

  it('that are known go on serving while the provider is away; without them nobody can say, and it is asked ever less often', async () => {
    const own = await startProvider({ tokenSeconds: 7 * 86_400 });
    try {
      let now = Date.now();
      const warned: string[] = [];
      const verify = verifier({
        issuers: [own.issuer],
        clock: () => now,
        onWarning: (message) => warned.push(message),
      });
      const token = (await own.signIn('alice')).accessToken;
      own.unreachable(true);
      const away = { kind: 'rejected', why: 'The server cannot reach the identity provider. Try again shortly.' };
      expect(await verify(token)).toEqual({ ...away, retryAfterSeconds: 1 });
      expect(await verify(token)).toEqual({ ...away, retryAfterSeconds: 1 });
      expect(warned).toHaveLength(1);
      now += 1_000;
      expect(await verify(token)).toEqual({ ...away, retryAfterSeconds: 2 });
      expect(warned).toHaveLength(2);

      own.unreachable(false);
      now += 2_000;
      expect(await verify(token)).toMatchObject({ kind: 'verified' });
      own.unreachable(true);
      now += 86_000_000;
      expect(await verify(token)).toMatchObject({ kind: 'verified' });
      now += 500_000;
      expect(await verify(token)).toMatchObject(away);
    } finally {
      await own.stop();
    }
  });

  it('are not taken from a document that speaks for another issuer', async () => {
    const elsewhere = `http://localhost:${new URL(provider.issuer).port}`;
    const causes: unknown[] = [];
    const verify = verifier({ issuers: [elsewhere], onWarning: (_message, cause) => causes.push(cause) });
    expect(await verify(await forge({ iss: elsewhere }))).toMatchObject({ retryAfterSeconds: 1 });
    expect(String(causes[0])).toMatch(/"issuer" property does not match|names another issuer/);
  });
});

/** A token by the provider's present key, with the words of another and a time that fits the test's clock. */
async function forgeFresh(like: string, own: TestProvider, now: number): Promise<string> {
  const exp = Math.floor(now / 1000) + 60;
  return forge({ ...decodeJwt(like), exp }, { key: own.key() });
}
