/** Builds everything into the folder of its first argument; with the word `server` behind it, without the client library. Run by `build.mjs`. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { buildClient } from './build-client.mjs';
import { buildProgram } from './build-program.mjs';
import { buildWeb } from './build-web.mjs';
import { componentsOf, licenceNotices } from './packaging/components.mjs';

const [outdir = '', part] = process.argv.slice(2);
const [program, client, web] = await Promise.all([
  buildProgram({ outdir }),
  part === 'server' ? [] : buildClient({ outdir }),
  buildWeb({ outdir }),
]);
const components = componentsOf({ program, client, web });
writeFileSync(`${outdir}/NOTICES.txt`, licenceNotices(components));
writeFileSync(`${outdir}/components.json`, `${JSON.stringify(components, undefined, 2)}\n`);
writeFileSync(`${outdir}/cli.md`, execFileSync(process.execPath, [`${outdir}/ringfence.mjs`, 'reference']));
