// SPDX-License-Identifier: Apache-2.0
// Pictures that are sent with a message: chosen, pasted or dropped, for models which take them.
import { element } from "./elements.js";

const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MOST = 8 << 20; // bytes of a file

const addressOf = (file) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.addEventListener("load", () => done(reader.result));
  reader.addEventListener("error", () => failed(reader.error));
  reader.readAsDataURL(file);
});

// {root, list, clear, put, on}: `root` is hidden until on(true), since most models take text alone.
export function pictures(drop, tell) {
  const list = []; // {name, address}
  let taken = false;
  const file = element("input", { type: "file", accept: TYPES.join(), multiple: true, hidden: true, "aria-label": "Pictures" });
  const shown = element("div", { class: "pictures" });
  const attach = element("button", { type: "button", onclick: () => file.click() }, "Picture");
  const root = element("div", { hidden: true, class: "attach" }, attach, file, shown);

  function draw() {
    shown.replaceChildren(...list.map((one, i) => element("button", { type: "button", "aria-label": `Remove ${one.name}`, onclick: () => {
      list.splice(i, 1);
      draw();
    } }, element("img", { src: one.address, alt: one.name }))));
  }

  async function add(files) {
    for (const one of files) {
      if (!TYPES.includes(one.type) || one.size > MOST) tell(`${one.name}: a PNG, JPEG, WebP or GIF of at most 8 MiB is taken`);
      else list.push({ name: one.name, address: await addressOf(one) });
    }
    draw();
  }

  file.addEventListener("change", () => add([...file.files]).then(() => (file.value = "")));
  drop.addEventListener("paste", (event) => {
    if (taken && event.clipboardData.files.length > 0) add([...event.clipboardData.files]);
  });
  drop.addEventListener("dragover", (event) => taken && event.preventDefault());
  drop.addEventListener("drop", (event) => {
    if (!taken || event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  return {
    root, list,
    clear() {
      list.length = 0;
      draw();
    },
    put(some) {
      list.push(...some);
      draw();
    },
    on(is) {
      taken = is;
      root.hidden = !is;
    },
  };
}
