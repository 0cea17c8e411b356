/** Owns how the pages speak to the server that they come from. */
import { csrfHeader } from '../../api/sign-in-paths.ts';
import { Client } from '../../client/http.ts';

/** With a token, or by the cookie that the browser adds and no script sees. */
export const clientFor = (token: string | undefined): Client =>
  new Client({ url: location.origin, headers: { [csrfHeader]: '1' }, ...(token === undefined ? {} : { token }) });
