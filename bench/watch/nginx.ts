/** Owns nginx with TLS in front of our server, set up as docs/tls-and-proxies.md says. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { reached } from './peers.ts';
import { freePort, processor, Talker } from './tools.ts';

export interface Proxy {
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

export async function startNginx(
  folder: string,
  to: number,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<Proxy> {
  const port = await freePort();
  const home = join(folder, `nginx-${port}`);
  mkdirSync(home);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${home}/${name};`,
  );
  const text = `
    daemon off; user root; worker_processes 1; worker_rlimit_nofile 65536; pid ${home}/pid; error_log stderr error;
    events { worker_connections 60000; }
    http {
      access_log off; ${temporary.join(' ')}
      map $http_upgrade $ringfence_connection { default upgrade; '' ''; }
      upstream ringfence { server 127.0.0.1:${to}; keepalive 16; }
      server {
        listen 127.0.0.1:${port} ssl backlog=4096;
        ssl_certificate ${cert}; ssl_certificate_key ${key}; ssl_session_cache shared:bench:10m;
        client_max_body_size 4m;
        location / {
          proxy_pass http://ringfence; proxy_http_version 1.1;
          proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $ringfence_connection;
          proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
          proxy_buffering off; proxy_read_timeout 90s;
        }
      }
    }`;
  const file = join(home, 'nginx.conf');
  writeFileSync(file, text);
  const talker = new Talker(['nginx', '-p', home, '-c', file], processor.server);
  (await reached(port, talker)).destroy();
  return { port, pid: talker.pid, stop: () => talker.stop('SIGTERM') };
}
