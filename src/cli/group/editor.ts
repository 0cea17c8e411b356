/** Owns the start of the user's editor, the only program that a client command starts. */

/** Opens the file in $VISUAL or $EDITOR (which may hold options), and answers with the editor's exit code. */
export function openEditor(file: string, env: NodeJS.ProcessEnv): Promise<number> {
  const editor = [env['VISUAL'], env['EDITOR']].find((given) => given !== undefined && given.trim() !== '') ?? 'vi';
  return new Promise((resolve, reject) => {
    // Loaded only here, because every command has this file.
    const { spawn } = process.getBuiltinModule('node:child_process');
    const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'editor', file], { stdio: 'inherit', env });
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(code ?? (signal === null ? 1 : 128)));
  });
}
