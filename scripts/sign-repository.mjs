/** Signs an apt repository again, so that machines go on believing it. Usage: npm run release:sign -- --gpg-key ID [--valid-days N] [FOLDER] */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { defaultValidDays, signAptRepository } from './packaging/apt-repository.mjs';

const { values, positionals } = parseArgs({
  options: { 'gpg-key': { type: 'string' }, 'valid-days': { type: 'string' } },
  allowPositionals: true,
});
const gpgKey = values['gpg-key'];
if (gpgKey === undefined) throw new Error('name the key that signs: --gpg-key ID');
const validDays = Number(values['valid-days'] ?? defaultValidDays);
const outdir = positionals[0] ?? fileURLToPath(new URL('../out/release/apt', import.meta.url));
signAptRepository({ outdir, gpgKey, validDays });
process.stdout.write(`${outdir} is signed and valid for ${validDays} days\n`);
