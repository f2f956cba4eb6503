// A tab of Chromium on a machine of the lab.

import { chmod, mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

// The package is installed for the browser's tests.
const { chromium } = createRequire(new URL("../browser/package.json", import.meta.url))("playwright-core");

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Opens a gateway's page on this machine and gives slots; returns when it has started. `story` ends the browser. */
export async function openTab(story, machine, url, { name = machine.name, slots = 1 } = {}) {
  await mkdir(machine.home, { recursive: true });
  // The browser is started by a program of its package, so it is led onto the machine's network. All tabs share the first
  // processor: a native slot has the lowest priority, which Chromium's Workers do not keep if root starts them, and
  // beside one it would get one part in 70.
  const led = join(machine.home, "chromium");
  const program = process.env.CHROMIUM || "/usr/bin/chromium";
  await writeFile(led, `#!/bin/sh\nexec taskset -c 0 nsenter --net=/run/netns/${machine.namespace} ${program} "$@"\n`);
  await chmod(led, 0o755);
  const browser = await chromium.launch({ executablePath: led, args: FLAGS });
  story.after(() => browser.close());
  const context = await browser.newContext();
  // A tab without a battery spares none.
  await context.addInitScript(() => delete Navigator.prototype.getBattery);
  const page = await context.newPage();
  await page.goto(url);
  await page.getByText("Name this tab").click();
  await page.getByLabel("Name of this tab").fill(name);
  const slider = page.getByRole("slider");
  if (await slider.isEnabled()) await slider.fill(String(slots));
  await page.getByRole("button", { name: "Start", exact: true }).click();
  return page;
}
