/** Owns the choice of the server address that other machines receive, and whether they can reach it. */

/** Whether only the machine itself reaches it there. */
export function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return (
    hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || hostname.startsWith('127.')
  );
}

/** Where devices reach the server: as the server says of itself, unless only the way that was taken here leads to it from elsewhere. */
export const addressForDevices = (publicUrl: string | undefined, here: string): string =>
  publicUrl === undefined || (isLoopback(publicUrl) && !isLoopback(here)) ? here : publicUrl;
